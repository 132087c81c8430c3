import { Page } from "@/components/page";

export function RunPage() {
  return <Page title="Run">Not yet.</Page>;
}
