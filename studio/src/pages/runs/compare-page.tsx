/** Up to ten runs beside each other: charts of their metrics on one axis, and where they differ. */
import { Anchor, Button, CloseButton, Group, Stack, Text, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQueries } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { run, type RunDetails } from "@/api/queries";
import { ChartControls, type ChartSettings, searchOf, settingsOf } from "@/components/chart/chart-controls";
import { Mark } from "@/components/chart/chart";
import { seriesColor, seriesDash } from "@/components/chart/colors";
import { Page, Section } from "@/components/page";
import { StateBadge } from "@/components/state-badge";
import { describe, Empty, Failure, Loading } from "@/components/states";
import { Duration } from "@/components/time";
import { plural } from "@/lib/format";
import { listOf, type Search, textOf } from "@/lib/search";
import { isFinal } from "@/lib/states";
import { AddRun } from "./add-run";
import { MOST_COMPARED } from "./bulk-actions";
import { CompareChart } from "./compare-chart";
import classes from "./compare-page.module.css";
import { DifferencesSection } from "./differences-section";
import { type Series, summaries } from "./queries";

/** A run of the comparison, with its sign in charts. */
export type Compared = { id: string; name: string; color: string; dash?: number[]; details: RunDetails; series: Record<string, Series> | undefined };

const FIRST_CHARTS = 24;

export function ComparePage() {
  const { workspace } = useParams({ strict: false }) as { workspace: string };
  const search = useSearch({ strict: false }) as Search;
  const navigate = useNavigate();
  const change = (changed: Search) => void navigate({ to: ".", search: { ...search, ...changed } as never, replace: true });
  const asked = [...new Set(listOf(search.run))];
  const ids = asked.slice(0, MOST_COMPARED);
  const found = useQueries({ queries: ids.map((id) => run(workspace, id)) });
  const metrics = useQueries({ queries: ids.map((id) => summaries(workspace, id)) });
  const runs = ids.flatMap((id, at): Compared[] => {
    const details = found[at]!.data;
    return details ? [{ id, name: details.name || `${details.experiment} #${details.number}`, color: seriesColor(at), dash: seriesDash(at), details, series: metrics[at]!.data }] : [];
  });
  const failed = ids.flatMap((id, at) => (found[at]!.error ? [{ id, error: found[at]!.error }] : []));
  const home = `/workspaces/${encodeURIComponent(workspace)}`;
  const setIds = (next: string[]) => change({ run: next });
  return (
    <Page
      title="Compare runs"
      crumbs={[{ label: "Runs", to: `${home}/runs` }]}
      actions={ids.length < MOST_COMPARED && <AddRun workspace={workspace} without={ids} onAdd={(id) => setIds([...ids, id])} />}
    >
      <Stack gap="md">
        {asked.length > MOST_COMPARED && (
          <Text size="sm" c="dimmed">
            The first {MOST_COMPARED} of {asked.length} runs are compared.
          </Text>
        )}
        {failed.map(({ id, error }) => (
          <Group key={id} align="flex-start" wrap="nowrap">
            <div className={classes.grow}>
              <Failure error={new Error(`${id}: ${describe(error).message}`)} />
            </div>
            <Button variant="default" onClick={() => setIds(ids.filter((each) => each !== id))}>
              Take it out
            </Button>
          </Group>
        ))}
        {!ids.length ? (
          <Empty title="No runs are chosen">
            Select up to {MOST_COMPARED} runs in the{" "}
            <Anchor component={Link} to={`${home}/runs`} underline="always">
              table of runs
            </Anchor>{" "}
            and choose Compare, or add one here.
          </Empty>
        ) : runs.length + failed.length < ids.length ? (
          <Loading rows={10} height={36} />
        ) : (
          runs.length > 0 && (
            <>
              <Runs workspace={workspace} runs={runs} onRemove={(id) => setIds(ids.filter((each) => each !== id))} />
              <Charts workspace={workspace} runs={runs} search={search} onChange={change} />
              <DifferencesSection workspace={workspace} runs={runs} isWhole={search.all === "1"} onWhole={(is) => change({ all: is ? "1" : undefined })} />
            </>
          )
        )}
      </Stack>
    </Page>
  );
}

function Runs({ workspace, runs, onRemove }: { workspace: string; runs: Compared[]; onRemove: (id: string) => void }) {
  return (
    <ul className={classes.runs} aria-label="Compared runs">
      {runs.map(({ id, name, color, dash, details }) => (
        <li key={id} className={classes.run} style={{ borderTopColor: color }} data-dashed={dash ? true : undefined}>
          <div className={classes.runHead}>
            <Mark color={color} isDashed={dash !== undefined} />
            <Anchor component={Link} to={`/workspaces/${encodeURIComponent(workspace)}/runs/${encodeURIComponent(id)}`} size="sm" fw={600} truncate title={id}>
              {name}
            </Anchor>
            <CloseButton size="sm" ml="auto" aria-label={`Take ${name} out`} onClick={() => onRemove(id)} />
          </div>
          <Text size="xs" c="dimmed" truncate>
            {details.experiment} · {details.target || "this process"} · {details.submitted_by}
          </Text>
          <Group gap="sm" justify="space-between" wrap="nowrap">
            <StateBadge state={details.state} message={details.message} />
            <Text size="xs" c="dimmed">
              <Duration start={details.started_at} end={isFinal(details.state) ? (details.ended_at ?? details.started_at) : null} />
            </Text>
          </Group>
        </li>
      ))}
    </ul>
  );
}

type ChartsProps = { workspace: string; runs: Compared[]; search: Search; onChange: (change: Search) => void };

function Charts({ workspace, runs, search, onChange }: ChartsProps) {
  const settings = settingsOf(search);
  const [text, setText] = useState(textOf(search.metric));
  const [narrow] = useDebouncedValue(text.toLowerCase(), 150);
  const [most, setMost] = useState(FIRST_CHARTS);
  const names = metricNames(runs).filter((name) => name.toLowerCase().includes(narrow));
  const isLoading = runs.some(({ series }) => series === undefined);
  const set = (next: ChartSettings) => onChange(searchOf(next));
  return (
    <Section
      title="Metrics"
      actions={
        <Group gap="lg">
          <ChartControls settings={settings} onChange={set} />
          <TextInput size="xs" aria-label="Narrow the metrics" placeholder="Narrow the metrics" value={text} onChange={(event) => setText(event.currentTarget.value)} />
        </Group>
      }
    >
      {isLoading ? (
        <div className={classes.pad}>
          <Loading rows={6} height={36} />
        </div>
      ) : !names.length ? (
        <Text c="dimmed" size="sm" className={classes.pad}>
          {narrow ? "No metric matches." : "None of these runs has logged a number."}
        </Text>
      ) : (
        <div className={classes.charts}>
          {names.slice(0, most).map((name) => (
            <CompareChart key={name} workspace={workspace} name={name} runs={runs} settings={settings} />
          ))}
        </div>
      )}
      {names.length > most && (
        <Button variant="subtle" m="sm" onClick={() => setMost(most + FIRST_CHARTS)}>
          Show more of {plural(names.length, "metric")}
        </Button>
      )}
    </Section>
  );
}

/** The names of scalar metrics: those that are lines in most runs first, single values last. */
function metricNames(runs: Compared[]): string[] {
  const lines = new Map<string, number>();
  for (const { series } of runs) {
    for (const [name, { kind, count }] of Object.entries(series ?? {})) {
      if (kind === "scalar") lines.set(name, (lines.get(name) ?? 0) + (count > 1 ? 1 : 0));
    }
  }
  return [...lines].sort(([a, n], [b, m]) => m - n || a.localeCompare(b)).map(([name]) => name);
}
