import { Page } from "@/components/page";

export function MembersPage() {
  return <Page title="Members">Not yet.</Page>;
}
