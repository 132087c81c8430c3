import { Page } from "@/components/page";

export function ComparePage() {
  return <Page title="Compare">Not yet.</Page>;
}
