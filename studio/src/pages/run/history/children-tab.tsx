/** The child runs of a run, live. */
import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ColumnDef } from "@tanstack/react-table";

import type { Run, RunDetails } from "@/api/queries";
import { DataTable } from "@/components/data-table";
import { RunLink } from "@/components/run-link";
import { StateBadge } from "@/components/state-badge";
import { Empty, Failure, Loading } from "@/components/states";
import { Ago, Duration } from "@/components/time";
import { between, plural } from "@/lib/format";

import { children } from "../queries";

export function ChildrenTab({ run }: { run: RunDetails }) {
  const { data, error, refetch } = useQuery(children(run));
  if (error) return <Failure error={error} retry={() => void refetch()} />;
  if (!data) return <Loading rows={6} height={33} />;
  if (!data.runs.length) {
    return (
      <Empty title="No child runs">
        A script begins one with <code>run.child_run()</code>, or submits one with <code>run.submit_child(…)</code>.
      </Empty>
    );
  }
  const counts = [...new Set(data.runs.map(({ state }) => state))].map(
    (state) => `${data.runs.filter((each) => each.state === state).length} ${state}`,
  );
  return (
    <>
      <Text size="sm" c="dimmed" mb="xs">
        {plural(data.runs.length, "child run")}: {counts.join(", ")}
        {data.hasMore && "; the first of them are shown"}
      </Text>
      <DataTable rows={data.runs} columns={columnsOf(run.workspace)} label="Child runs" />
    </>
  );
}

function columnsOf(workspace: string): ColumnDef<Run>[] {
  return [
    { id: "run", header: "Run", accessorFn: (run) => run.name || run.id, cell: ({ row }) => <RunLink workspace={workspace} run={row.original} /> },
    { id: "state", header: "State", accessorKey: "state", cell: ({ row }) => <StateBadge state={row.original.state} message={row.original.message} /> },
    { id: "target", header: "Target", accessorFn: (run) => run.target || "this process" },
    { id: "created", header: "Submitted", accessorKey: "created_at", cell: ({ row }) => <Ago time={row.original.created_at} /> },
    {
      id: "took",
      header: "Took",
      accessorFn: (run) => between(run.started_at, run.ended_at) ?? -1,
      cell: ({ row }) => <Duration start={row.original.started_at} end={row.original.ended_at} />,
    },
    {
      id: "tags",
      header: "Tags",
      accessorFn: (run) => Object.entries(run.tags).map(([key, value]) => (value === null ? key : `${key}=${value}`)).join(", "),
    },
  ];
}
