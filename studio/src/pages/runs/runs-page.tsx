/** The table of runs, of the workspace or of one experiment. */
import { Button, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { experiments } from "@/api/queries";
import { useMay } from "@/api/session";
import { Page } from "@/components/page";
import { Empty, Loading } from "@/components/states";
import { plural } from "@/lib/format";
import type { Search } from "@/lib/search";
import { BulkActions } from "./bulk-actions";
import { ColumnsMenu } from "./columns-menu";
import { columnsOf, experimentColumns, hasArguments, metricsOf } from "./columns";
import { FilterBar } from "./filter-bar";
import { filtersOf, isFiltered, nextSort, sortOf, withoutFilters } from "./filters";
import { runColumns } from "./queries";
import { RunTable } from "./run-table";
import classes from "./runs-page.module.css";
import { useRunList } from "./use-run-list";
import { ViewsMenu } from "./views-menu";

export function RunsPage() {
  const { workspace, experiment } = useParams({ strict: false }) as { workspace: string; experiment?: string };
  const known = useQuery({ ...runColumns(workspace, experiment), enabled: experiment !== undefined, staleTime: Infinity });
  const usual = useMemo(() => (experiment !== undefined && known.data ? experimentColumns(known.data) : undefined), [experiment, known.data]);
  if (experiment === undefined) return <Runs workspace={workspace} />;
  if (known.isPending) return <Page title={experiment} fillsHeight><Loading rows={16} height={30} /></Page>;
  return <Runs key={experiment} workspace={workspace} experiment={experiment} usual={usual} />;
}

type Props = { workspace: string; experiment?: string; /** The columns without others in the address. */ usual?: string[] };

function Runs({ workspace, experiment, usual }: Props) {
  const search = useSearch({ strict: false }) as Search;
  const navigate = useNavigate();
  const may = useMay();
  const replace = (next: Search) => void navigate({ to: ".", search: next as never, replace: true });
  const change = (changed: Search) => replace({ ...search, ...changed });
  const columns = useMemo(() => columnsOf(search, usual), [search, usual]);
  const filterKey = JSON.stringify([withoutColumns(search), experiment]);
  const filters = useMemo(() => ({ ...filtersOf(search), ...(experiment ? { experiment } : {}) }), [filterKey]); // eslint-disable-line react-hooks/exhaustive-deps
  const [list, state] = useRunList(workspace, filters, { metrics: metricsOf(columns), arguments: hasArguments(columns) });
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const rows = useMemo(() => state.rows.filter(({ id }) => selected.has(id)), [state.rows, selected]);
  const home = `/workspaces/${encodeURIComponent(workspace)}`;
  const ids = columns.map(({ id }) => id);
  return (
    <Page
      title={experiment ?? "Runs"}
      description={experiment !== undefined && <ExperimentFacts workspace={workspace} name={experiment} />}
      crumbs={experiment === undefined ? undefined : [{ label: "Experiments", to: `${home}/experiments` }]}
      fillsHeight
      actions={
        <>
          <ViewsMenu workspace={workspace} search={search} onOpen={replace} />
          <ColumnsMenu workspace={workspace} experiment={experiment} columns={columns} onChange={(column) => change({ column })} />
          {may("runs.submit") && (
            <Button component={Link} to={`${home}/submit`} search={(experiment ? { experiment } : {}) as never}>
              Submit a run
            </Button>
          )}
        </>
      }
    >
      <div className={classes.bar}>
        {rows.length ? (
          <BulkActions
            workspace={workspace}
            rows={rows}
            onClear={() => setSelected(new Set())}
            onDone={(changed) => {
              setSelected((before) => new Set([...before].filter((id) => !changed.includes(id))));
              list.changed(changed);
            }}
          />
        ) : (
          <FilterBar workspace={workspace} experiment={experiment} search={search} onChange={change} onReplace={replace} />
        )}
      </div>
      <RunTable
        workspace={workspace}
        list={list}
        state={state}
        columns={columns}
        sort={sortOf(search)}
        onSort={(key) => change({ sort: nextSort(search, key) })}
        onMove={(id, before) => change({ column: moved(ids, id, before) })}
        selected={selected}
        onSelect={setSelected}
        empty={
          isFiltered(search) ? (
            <Empty title="No run matches the filters">
              <Button variant="default" onClick={() => replace(withoutFilters(search))}>
                Clear the filters
              </Button>
            </Empty>
          ) : (
            <Empty title="There are no runs yet">
              Submit the first one with <code>windlass submit train.py</code>
              {may("runs.submit") && " or in the browser"}.
            </Empty>
          )
        }
      />
    </Page>
  );
}

const withoutColumns = ({ column: _column, ...rest }: Search): Search => rest;

function moved(ids: string[], id: string, before: string): string[] {
  const rest = ids.filter((each) => each !== id);
  const isToTheRight = ids.indexOf(id) < ids.indexOf(before);
  rest.splice(rest.indexOf(before) + (isToTheRight ? 1 : 0), 0, id);
  return rest;
}

function ExperimentFacts({ workspace, name }: { workspace: string; name: string }) {
  const { data } = useQuery(experiments(workspace));
  const found = data?.experiments.find((each) => each.name === name) as (Record<string, unknown> & { tags: Record<string, string> }) | undefined;
  if (!found) return data ? <>There is no experiment of this name yet.</> : <>&nbsp;</>;
  const counts = [
    typeof found.runs === "number" && plural(found.runs, "run"),
    found.active_runs ? `${found.active_runs} active` : "",
    found.failed_runs ? `${found.failed_runs} failed` : "",
    found.archived_at ? "archived" : "",
    ...Object.entries(found.tags).map(([key, value]) => (value ? `${key}: ${value}` : key)),
  ];
  return (
    <Text span size="sm">
      {counts.filter(Boolean).join(" · ") || "No runs"}
    </Text>
  );
}
