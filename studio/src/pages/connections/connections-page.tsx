import { Page } from "@/components/page";

export function ConnectionsPage() {
  return <Page title="Connections">Not yet.</Page>;
}
