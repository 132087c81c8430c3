/** A run at a glance: why it failed, what it measured, what it left. */
import { Anchor, Button, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { IconPencil } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import type { RunDetails } from "@/api/queries";
import { useMay } from "@/api/session";
import { seriesColor } from "@/components/chart/colors";
import { Facts, Section } from "@/components/page";
import { Loading } from "@/components/states";
import { bytes, number, plural } from "@/lib/format";
import { isFinal } from "@/lib/states";

import { TextDialog } from "../head/actions";
import { groupMetrics, shapeOf } from "../metrics/groups";
import { MetricChart } from "../metrics/metric-chart";
import { useRunSeries } from "../metrics/use-series";
import { runFiles, runUsage } from "../queries";
import { usedFacts } from "../resources/resources-tab";
import classes from "../run.module.css";
import { FailureSection } from "./failure-section";
import { LogTail } from "./log-tail";

type Props = { run: RunDetails };

const MOST_CHARTS = 4;
const MOST_VALUES = 12;
const MOST_FILES = 8;

export function OverviewTab({ run }: Props) {
  return (
    <div className={classes.stack}>
      {run.state === "Failed" && <FailureSection run={run} />}
      <Note run={run} />
      <div className={classes.grid}>
        <div className={classes.stack}>
          <KeyMetrics run={run} />
        </div>
        <div className={classes.stack}>
          {run.state !== "Failed" && <LogTail run={run} />}
          <Outputs run={run} />
          <UsageSummary run={run} />
        </div>
      </div>
    </div>
  );
}

/** A link to another tab of the same run. */
export function TabLink({ tab, children, ...search }: { tab: string; children: React.ReactNode; file?: string }) {
  return (
    <Anchor component={Link} to="." search={((before: object) => ({ ...before, tab, ...search })) as never} size="sm" display="inline-block" py={3}>
      {children}
    </Anchor>
  );
}

function Note({ run }: Props) {
  const may = useMay();
  const [isOpen, setOpen] = useState(false);
  if (!run.description) return null;
  return (
    <Section
      title="Note"
      actions={
        may("runs.write") && (
          <Button variant="subtle" color="gray" size="compact-xs" leftSection={<IconPencil size={13} />} onClick={() => setOpen(true)}>
            Edit
          </Button>
        )
      }
    >
      <Text size="sm" className={classes.note}>
        {run.description}
      </Text>
      <TextDialog opened={isOpen} onClose={() => setOpen(false)} run={run} field="description" title="Note" label="Note" isLong />
    </Section>
  );
}

function KeyMetrics({ run }: Props) {
  const { summaries, store } = useRunSeries(run);
  const all = groupMetrics(summaries.data?.metrics ?? {}, "").flatMap(({ metrics }) => metrics);
  const scalars = all.filter(({ series }) => series.kind === "scalar");
  const charts = scalars.filter(({ series }) => shapeOf(series) === "chart").slice(0, MOST_CHARTS);
  const start = Date.parse(run.started_at ?? run.created_at) / 1000;
  return (
    <Section title="Metrics" actions={all.length > 0 && <TabLink tab="metrics">{plural(all.length, "metric")}</TabLink>}>
      <div className={classes.pad}>
        {!summaries.data ? (
          <Loading rows={3} height={50} />
        ) : !all.length ? (
          <Text size="sm" c="dimmed">
            {isFinal(run.state) ? "None were logged." : "None have been logged yet."}
          </Text>
        ) : (
          <Stack gap="sm">
            <div className={classes.tiles}>
              {scalars.slice(0, MOST_VALUES).map(({ name, series }) => (
                <div key={name} className={classes.tile}>
                  <div className={classes.tileName} title={name}>
                    {name}
                  </div>
                  <div className={classes.tileValue}>{number(series.values.at(-1)?.v)}</div>
                  <div className={classes.tileNote}>
                    {series.count > 1 && typeof series.min === "number" ? `${number(series.min)} to ${number(series.max)}` : " "}
                  </div>
                </div>
              ))}
            </div>
            {charts.map(({ name }, index) => (
              <MetricChart
                key={name}
                of={run}
                store={store}
                name={name}
                settings={{ kind: "step", isLog: false, smoothing: 0 }}
                start={start}
                color={seriesColor(index)}
              />
            ))}
          </Stack>
        )}
      </div>
    </Section>
  );
}

function Outputs({ run }: Props) {
  const { data } = useQuery(runFiles(run));
  const outputs = (data?.files ?? []).filter(({ path }) => !/^(user_logs|azureml-logs|system_logs|logs|attempts)\//.test(path));
  const total = outputs.reduce((sum, { size }) => sum + size, 0);
  return (
    <Section title="Outputs" actions={outputs.length > 0 && <TabLink tab="files">{`${plural(outputs.length, "file")}, ${bytes(total)}`}</TabLink>}>
      <div className={classes.pad}>
        {!data ? (
          <Loading rows={2} height={18} />
        ) : !outputs.length ? (
          <Text size="sm" c="dimmed">
            {isFinal(run.state) ? "The run left no outputs." : "Outputs are collected at the end of the run."}
          </Text>
        ) : (
          outputs.slice(0, MOST_FILES).map(({ path, size }) => (
            <Group key={path} justify="space-between" gap="xs" wrap="nowrap">
              <span className={classes.mono}>
                <TabLink tab="files" file={path}>
                  {path}
                </TabLink>
              </span>
              <Text size="xs" c="dimmed" style={{ whiteSpace: "nowrap" }}>
                {bytes(size)}
              </Text>
            </Group>
          ))
        )}
      </div>
    </Section>
  );
}

function UsageSummary({ run }: Props) {
  const { data } = useQuery(runUsage(run, !isFinal(run.state)));
  const known = data?.summary ?? data?.samples.at(-1) ?? null;
  if (!known) return null;
  return (
    <Section title="Resources" actions={<TabLink tab="resources">Over time</TabLink>}>
      <Facts facts={usedFacts(known)} />
    </Section>
  );
}
