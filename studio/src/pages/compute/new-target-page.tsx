import { Page } from "@/components/page";

export function NewTargetPage() {
  return <Page title="New target">Not yet.</Page>;
}
