import { Page } from "@/components/page";

export function RunsPage() {
  return <Page title="Runs">Not yet.</Page>;
}
