/** The audit log: which member did what, and whether any entry was changed since. */
import { Alert, Button, Group, Select, Text, TextInput } from "@mantine/core";
import { useInfiniteQuery, useMutation } from "@tanstack/react-query";
import { IconSearch } from "@tabler/icons-react";
import type { ColumnDef } from "@tanstack/react-table";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";

import { api, data, type Schemas } from "@/api/client";
import { DataTable } from "@/components/data-table";
import { Page, Section } from "@/components/page";
import { Empty, Failure, Loading } from "@/components/states";
import { Ago } from "@/components/time";
import { plural } from "@/lib/format";
import { useWorkspace } from "@/lib/workspace";

type Entry = Schemas["EntryView"];

const AUDIT = "/api/v1/workspaces/{workspace}/audit" as const;
const PAGE = 200;
type LogPage = Schemas["AuditPage"];

const columns: ColumnDef<Entry>[] = [
  { header: "Time", accessorKey: "at", enableSorting: false, cell: ({ row }) => <Ago time={row.original.at} /> },
  { header: "Member", accessorKey: "principal", enableSorting: false },
  { header: "Act", accessorKey: "act", enableSorting: false, cell: ({ row }) => <Text size="sm" fw={500}>{row.original.act}</Text> },
  { header: "On", accessorKey: "object", enableSorting: false },
  { id: "details", header: "Details", accessorFn: detailsOf, enableSorting: false },
];

function detailsOf(entry: Entry): string {
  return Object.entries(entry.details).map(([key, value]) => `${key}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");
}

export function AuditPage() {
  const { workspace } = useWorkspace();
  const { q = "", member = "" } = useSearch({ strict: false }) as { q?: string; member?: string };
  const navigate = useNavigate();
  const show = (search: { q?: string; member?: string }) =>
    void navigate({ to: ".", search: { q: q || undefined, member: member || undefined, ...search } as never, replace: true });
  const log = useInfiniteQuery({
    queryKey: ["audit", workspace],
    initialPageParam: 0,
    getNextPageParam: (page: LogPage) => page.next ?? undefined,
    queryFn: ({ pageParam, signal }) =>
      data(
        api.GET(AUDIT, {
          params: { path: { workspace }, query: { limit: PAGE, ...(pageParam ? { before: pageParam } : {}) } },
          signal,
        }),
      ),
  });
  const entries = useMemo(() => log.data?.pages.flatMap((page) => page.entries) ?? [], [log.data]);
  const names = useMemo(() => [...new Set(entries.map(({ principal }) => principal))].sort(), [entries]);
  const shown = member ? entries.filter(({ principal }) => principal === member) : entries;
  return (
    <Page
      title="Audit"
      description="Entries are only added. The digest of each covers the one before, so that a change shows."
      actions={<Verify workspace={workspace} />}
    >
      <Group gap="xs" mb="sm">
        <TextInput
          aria-label="Filter entries"
          placeholder="Filter"
          leftSection={<IconSearch size={15} />}
          value={q}
          onChange={(event) => show({ q: event.currentTarget.value || undefined })}
        />
        <Select
          aria-label="Member"
          placeholder="All members"
          data={names}
          value={member || null}
          clearable
          allowDeselect
          onChange={(name) => show({ member: name ?? undefined })}
        />
      </Group>
      {log.error ? (
        <Failure error={log.error} retry={() => void log.refetch()} />
      ) : (
        <Section>
          {log.data ? (
            <DataTable rows={shown} columns={columns} label="Audit log" filter={q} empty={<Empty title="No entries" />} />
          ) : (
            <Loading rows={12} />
          )}
        </Section>
      )}
      {log.hasNextPage && (
        <Group mt="sm" gap="sm">
          <Button variant="default" loading={log.isFetchingNextPage} onClick={() => void log.fetchNextPage()}>
            Load older entries
          </Button>
          <Text size="sm" c="dimmed">
            The filter looks through the {plural(entries.length, "entry", "entries")} that {entries.length === 1 ? "is" : "are"} loaded.
          </Text>
        </Group>
      )}
    </Page>
  );
}

function Verify({ workspace }: { workspace: string }) {
  const check = useMutation({
    mutationFn: () => data(api.GET(`${AUDIT}/chain`, { params: { path: { workspace } } })),
  });
  const found = check.data;
  return (
    <>
      {check.error && <Text size="sm" c="var(--studio-bad)" role="alert">{check.error.message}</Text>}
      {found && (
        <Alert p="xs" color={found.is_whole ? "green" : "red"} role="status">
          {found.is_whole
            ? `All ${plural(found.count, "entry", "entries")} of the server are as they were written.`
            : `Entry ${found.broken_at} was changed or removed after it was written.`}
        </Alert>
      )}
      <Button variant="default" loading={check.isPending} onClick={() => check.mutate()}>
        Verify
      </Button>
    </>
  );
}
