import { Page } from "@/components/page";

export function ComputePage() {
  return <Page title="Compute">Not yet.</Page>;
}
