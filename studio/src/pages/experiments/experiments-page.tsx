/** The experiments of a workspace with the counts of their runs. */
import { ActionIcon, Anchor, Switch, Tooltip } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { createColumnHelper } from "@tanstack/react-table";
import { IconArchive, IconArchiveOff } from "@tabler/icons-react";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";

import { experiments } from "@/api/queries";
import { useMay } from "@/api/session";
import { actionsColumn } from "@/components/data-table";
import { ListPage } from "@/components/list-page";
import { describe, Empty } from "@/components/states";
import { Ago } from "@/components/time";
import { number } from "@/lib/format";
import type { Search } from "@/lib/search";
import classes from "./experiments-page.module.css";
import { archiveExperiment, type Experiment } from "./queries";

export function ExperimentsPage() {
  const { workspace } = useParams({ strict: false }) as { workspace: string };
  const search = useSearch({ strict: false }) as Search;
  const navigate = useNavigate();
  const may = useMay();
  const { data, error, refetch } = useQuery(experiments(workspace));
  const hasArchived = search.archived === "all";
  const all = data?.experiments as Experiment[] | undefined;
  const shown = useMemo(() => all?.filter(({ archived_at }) => hasArchived || !archived_at), [all, hasArchived]);
  const isWriter = may("experiments.write");
  const columns = useMemo(() => columnsOf(workspace, isWriter), [workspace, isWriter]);
  return (
    <ListPage
      title="Experiments"
      description="A named series of runs."
      actions={
        all?.some(({ archived_at }) => archived_at) && (
          <Switch
            size="xs"
            label="Also archived"
            checked={hasArchived}
            onChange={(event) => void navigate({ to: ".", search: { archived: event.currentTarget.checked ? "all" : undefined } as never, replace: true })}
          />
        )
      }
      rows={shown}
      error={error}
      retry={() => void refetch()}
      columns={columns}
      sort={[{ id: "last_run_at", desc: true }]}
      empty={
        <Empty title={all?.length ? "All experiments are archived" : "There are no experiments yet"}>
          An experiment is there as soon as a run is submitted to it: <code>windlass submit --experiment NAME train.py</code>
        </Empty>
      }
    />
  );
}

const column = createColumnHelper<Experiment>();

function columnsOf(workspace: string, isWriter: boolean) {
  const home = `/workspaces/${encodeURIComponent(workspace)}/experiments`;
  const link = (name: string, text: string, state?: string) => (
    <Anchor component={Link} to={`${home}/${encodeURIComponent(name)}`} search={(state ? { state } : {}) as never} size="sm" fw={state ? undefined : 500}>
      {text}
    </Anchor>
  );
  const count = (id: "runs" | "active_runs" | "failed_runs", header: string, state?: string) =>
    column.accessor(id, {
      header,
      cell: ({ getValue, row }) => (getValue() ? link(row.original.name, number(getValue()), state) : <span className={classes.none}>{number(getValue() ?? 0)}</span>),
    });
  return [
    column.accessor("name", {
      header: "Name",
      cell: ({ row: { original } }) => (
        <>
          {link(original.name, original.name)}
          {original.archived_at && <span className={classes.tag}>archived</span>}
        </>
      ),
    }),
    column.accessor("runs", { header: "Runs", cell: ({ getValue }) => number(getValue() ?? 0) }),
    count("active_runs", "Active", "active"),
    count("failed_runs", "Failed", "Failed"),
    column.accessor((row) => row.last_run_at ?? "", { id: "last_run_at", header: "Last run", cell: ({ getValue }) => <Ago time={getValue()} /> }),
    column.accessor("created_at", { header: "Created", cell: ({ getValue }) => <Ago time={getValue()} /> }),
    column.accessor((row) => Object.entries(row.tags).map(([key, value]) => (value ? `${key}: ${value}` : key)).join(", "), {
      id: "tags",
      header: "Tags",
      enableSorting: false,
      cell: ({ getValue }) => getValue() || "–",
    }),
    ...(isWriter
      ? [
          actionsColumn((row: Experiment) => <Archive workspace={workspace} experiment={row} />),
        ]
      : []),
  ];
}

function Archive({ workspace, experiment }: { workspace: string; experiment: Experiment }) {
  const client = useQueryClient();
  const isArchived = experiment.archived_at !== null;
  const work = useMutation({
    mutationFn: () => archiveExperiment(workspace, experiment.name, !isArchived),
    onSuccess: () => client.invalidateQueries({ queryKey: ["experiments", workspace] }),
    onError: (error) => notifications.show({ color: "red", title: describe(error).message, message: describe(error).hint }),
  });
  const label = `${isArchived ? "Restore" : "Archive"} ${experiment.name}`;
  return (
    <Tooltip label={isArchived ? "Restore" : "Archive: lists leave it out, its runs stay"}>
      <ActionIcon aria-label={label} loading={work.isPending} onClick={() => work.mutate()}>
        {isArchived ? <IconArchiveOff size={16} /> : <IconArchive size={16} />}
      </ActionIcon>
    </Tooltip>
  );
}
