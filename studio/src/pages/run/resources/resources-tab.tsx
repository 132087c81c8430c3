/** What a run uses of its machine over time, and what it was given. */
import { Anchor } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import type { RunDetails } from "@/api/queries";
import type { Schemas } from "@/api/client";
import { Chart } from "@/components/chart/chart";
import { seriesColor } from "@/components/chart/colors";
import type { ChartSeries } from "@/components/chart/series";
import { Facts, Section } from "@/components/page";
import { Empty, Failure, Loading } from "@/components/states";
import { bytes, duration, plural } from "@/lib/format";
import { isFinal } from "@/lib/states";

import { runUsage } from "../queries";
import classes from "../run.module.css";
import { levelOf, lineOf, rateOf, type Sample } from "./usage";

export function ResourcesTab({ run }: { run: RunDetails }) {
  const { data, error, refetch } = useQuery(runUsage(run, !isFinal(run.state)));
  if (error) return <Failure error={error} retry={() => void refetch()} />;
  if (!data) return <Loading rows={4} height={150} />;
  return (
    <div className={classes.stack}>
      <div className={classes.grid}>
        <Section title="Given">
          <Facts facts={given(run)} />
        </Section>
        <Section title="Used">
          <Facts facts={usedFacts(data.summary ?? lastOf(data.samples))} />
        </Section>
      </div>
      {data.samples.length > 1 ? (
        <div className={classes.charts}>
          {chartsOf(data.samples, run).map(({ title, series }) => (
            <div key={title} className={classes.card}>
              <Chart title={title} series={series} kind="elapsed" height={180} sync={`usage ${run.id}`} />
            </div>
          ))}
        </div>
      ) : (
        <Empty title="No samples yet">The processes of a run are measured every few seconds while it runs.</Empty>
      )}
    </div>
  );
}

function given(run: RunDetails): [string, ReactNode][] {
  const { cpus, gpus, memory_mb, nodes } = run.spec?.resources ?? {};
  const target = run.target && (
    <Anchor key="target" component={Link} size="sm" to={`/workspaces/${encodeURIComponent(run.workspace)}/compute/${encodeURIComponent(run.target)}`}>
      {run.target}
    </Anchor>
  );
  const facts: [string, ReactNode][] = [
    ["Target", target ? <>{target} {run.target_kind && `(${run.target_kind})`}</> : "this process"],
    ...run.allocation.map((share): [string, ReactNode] => [share.node || "This target", shareText(share)]),
    ["Asked for", askedText({ cpus, gpus, memory_mb, nodes })],
    ["Time limit", run.spec?.max_run_duration_seconds ? duration(run.spec.max_run_duration_seconds) : null],
  ];
  return facts.filter(([, value]) => value);
}

function shareText({ cores, memory_mb, gpus }: Schemas["ShareView"]): string {
  const parts = [cores && plural(cores, "core"), memory_mb && `${bytes(memory_mb * 1e6)} of memory`, gpus.length && `GPU ${gpus.join(", ")}`];
  return parts.filter(Boolean).join(", ") || "a slot";
}

function askedText({ cpus, gpus, memory_mb, nodes }: { cpus?: number | null; gpus?: number | null; memory_mb?: number | null; nodes?: number | null }): string {
  const parts = [
    nodes && nodes > 1 && plural(nodes, "node"),
    cpus && plural(cpus, "CPU"),
    memory_mb && `${bytes(memory_mb * 1e6)} of memory`,
    gpus && plural(gpus, "GPU"),
  ];
  return parts.filter(Boolean).join(", ") || "what the target gives";
}

/** Facts about the use of resources, from the summary at the end or the last sample. */
export function usedFacts(usage: Sample | null): [string, ReactNode][] {
  if (!usage) return [["So far", "nothing is known yet"]];
  const value = (key: string) => (typeof usage[key] === "number" ? (usage[key] as number) : null);
  const size = (key: string) => (value(key) === null ? null : bytes(value(key)! * 1048576));
  const facts: [string, ReactNode][] = [
    ["CPU time", value("cpu_seconds") === null ? null : duration(value("cpu_seconds")!)],
    ["Peak memory", size("peak_rss_mb")],
    ["Memory", size("rss_mb")],
    ["Peak GPU memory", size("peak_gpu_mb")],
    ["Read from disk", size("read_mb")],
    ["Written to disk", size("written_mb")],
    ["Processes", value("processes")],
  ];
  return facts.filter(([, each]) => each !== null);
}

const lastOf = (samples: Sample[]): Sample | null => samples.at(-1) ?? null;

const GIB = 1 / 1024;

function chartsOf(samples: Sample[], run: RunDetails): { title: string; series: ChartSeries[] }[] {
  const first = samples[0]?.at;
  const start = run.started_at ? Date.parse(run.started_at) / 1000 : typeof first === "number" ? first : 0;
  const level = (name: string, key: string, index: number, factor = 1) => lineOf(name, levelOf(samples, key, start, factor), seriesColor(index));
  const rate = (name: string, key: string, index: number, factor = 1) => lineOf(name, rateOf(samples, key, start, factor), seriesColor(index));
  const has = (key: string) => samples.some((sample) => typeof sample[key] === "number");
  return [
    { title: "CPU, in cores", series: [rate("cores", "cpu_seconds", 0)] },
    { title: "Memory, in GiB", series: [level("memory", "rss_mb", 1, GIB)] },
    ...(has("gpu_percent") ? [{ title: "GPU, in percent", series: [level("GPU", "gpu_percent", 2)] }] : []),
    ...(has("gpu_mb") ? [{ title: "GPU memory, in GiB", series: [level("GPU memory", "gpu_mb", 3, GIB)] }] : []),
    { title: "Disk, in MiB a second", series: [rate("read", "read_mb", 5), rate("written", "written_mb", 4)] },
    { title: "Processes", series: [level("processes", "processes", 8)] },
  ];
}
