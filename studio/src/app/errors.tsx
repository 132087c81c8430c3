import { Anchor, Box } from "@mantine/core";
import { type ErrorComponentProps, Link, useRouter } from "@tanstack/react-router";

import { Empty, Failure } from "@/components/states";

/** What is shown instead of a page that failed. */
export function PageError({ error }: ErrorComponentProps) {
  const router = useRouter();
  return (
    <Box p="lg" maw={720}>
      <Failure error={error} retry={() => void router.invalidate()} />
    </Box>
  );
}

export function NotFound() {
  return (
    <Empty title="There is no such page">
      <Anchor component={Link} to="/">
        To the start page
      </Anchor>
    </Empty>
  );
}
