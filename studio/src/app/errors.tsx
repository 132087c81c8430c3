import { Anchor, Text } from "@mantine/core";
import { type ErrorComponentProps, Link, useRouter } from "@tanstack/react-router";

import { Page } from "@/components/page";
import { Failure } from "@/components/states";

/** What is shown instead of a page that failed. */
export function PageError({ error }: ErrorComponentProps) {
  const router = useRouter();
  return (
    <Page title="This page failed">
      <Failure error={error} retry={() => void router.invalidate()} />
    </Page>
  );
}

/** Inside a workspace, where the frame is around it. */
export function NotFound() {
  return (
    <Page title="There is no such page">
      <Text size="sm">
        The address may be mistyped, or what it names was deleted.{" "}
        <Anchor component={Link} to="/" size="sm" underline="always">
          To the start page
        </Anchor>
      </Text>
    </Page>
  );
}

/** Outside of any workspace. */
export function NothingHere() {
  return (
    <main>
      <NotFound />
    </main>
  );
}
