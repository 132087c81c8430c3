import { Page } from "@/components/page";

export function EnvironmentPage() {
  return <Page title="Environment">Not yet.</Page>;
}
