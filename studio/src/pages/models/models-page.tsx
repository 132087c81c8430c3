import { Page } from "@/components/page";

export function ModelsPage() {
  return <Page title="Models">Not yet.</Page>;
}
