import { Page } from "@/components/page";

export function ModelPage() {
  return <Page title="Model">Not yet.</Page>;
}
