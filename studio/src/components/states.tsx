/** What a page shows instead of its content: loading, nothing there, an error. */
import { Alert, Button, Center, Skeleton, Stack, Text, Title } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import type { ReactNode } from "react";

import { ApiError } from "@/api/client";

/** Grey bars of the height that the content will have. */
export function Loading({ rows = 6, height = 28 }: { rows?: number; height?: number }) {
  return (
    <Stack gap={6} role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, row) => (
        <Skeleton key={row} height={height} radius="sm" />
      ))}
    </Stack>
  );
}

/** A place without content: what would be here, and how to get it. */
export function Empty({ title, icon, children }: { title: string; icon?: ReactNode; children?: ReactNode }) {
  return (
    <Center mih={180} p="lg">
      <Stack align="center" gap="xs" maw={520} ta="center">
        {icon}
        <Title order={2}>{title}</Title>
        <Text c="dimmed" component="div">
          {children}
        </Text>
      </Stack>
    </Center>
  );
}

/** An error: what happened and what to do next. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const { message, hint } = describe(error);
  return (
    <Alert color="red" variant="light" icon={<IconAlertTriangle size={18} />} title={message} role="alert">
      <Stack gap="xs" align="flex-start">
        {hint && <Text size="sm">{hint}</Text>}
        {retry && (
          <Button variant="default" onClick={retry}>
            Try again
          </Button>
        )}
      </Stack>
    </Alert>
  );
}

export function describe(error: unknown): { message: string; hint: string } {
  if (error instanceof ApiError) return { message: error.message, hint: error.hint };
  return { message: error instanceof Error ? error.message : String(error), hint: "" };
}
