import { Page } from "@/components/page";

export function EnvironmentsPage() {
  return <Page title="Environments">Not yet.</Page>;
}
