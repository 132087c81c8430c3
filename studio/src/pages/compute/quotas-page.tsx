import { Page } from "@/components/page";

export function QuotasPage() {
  return <Page title="Quotas">Not yet.</Page>;
}
