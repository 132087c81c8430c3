import { Page } from "@/components/page";

export function SecretsPage() {
  return <Page title="Secrets">Not yet.</Page>;
}
