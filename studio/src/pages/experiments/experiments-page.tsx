import { Page } from "@/components/page";

export function ExperimentsPage() {
  return <Page title="Experiments">Not yet.</Page>;
}
