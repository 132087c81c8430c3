import { Page } from "@/components/page";

export function SubmitPage() {
  return <Page title="Submit">Not yet.</Page>;
}
