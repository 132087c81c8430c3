import { Page } from "@/components/page";

export function TargetPage() {
  return <Page title="Target">Not yet.</Page>;
}
