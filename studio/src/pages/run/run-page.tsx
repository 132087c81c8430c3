/** A run: what it is and how it is, its logs, metrics, files, and everything else about it. */
import { Tabs } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense } from "react";

import { run as runQuery, type RunDetails } from "@/api/queries";
import { Failure, Loading } from "@/components/states";
import { isFinal } from "@/lib/states";

import { RunHead } from "./head/run-head";
import classes from "./run.module.css";
import { useRunSearch } from "./search";

const Overview = lazy(() => import("./overview/overview-tab").then(({ OverviewTab }) => ({ default: OverviewTab })));
const Logs = lazy(() => import("./logs/logs-tab").then(({ LogsTab }) => ({ default: LogsTab })));
const Metrics = lazy(() => import("./metrics/metrics-tab").then(({ MetricsTab }) => ({ default: MetricsTab })));
const Resources = lazy(() => import("./resources/resources-tab").then(({ ResourcesTab }) => ({ default: ResourcesTab })));
const Files = lazy(() => import("./files/files-tab").then(({ FilesTab }) => ({ default: FilesTab })));
const Code = lazy(() => import("./code/code-tab").then(({ CodeTab }) => ({ default: CodeTab })));
const Children = lazy(() => import("./history/children-tab").then(({ ChildrenTab }) => ({ default: ChildrenTab })));
const Attempts = lazy(() => import("./history/attempts-tab").then(({ AttemptsTab }) => ({ default: AttemptsTab })));
const Events = lazy(() => import("./history/events-tab").then(({ EventsTab }) => ({ default: EventsTab })));

const ACTIVE_REFRESH = 5_000;

export function RunPage() {
  const { workspace, id } = useParams({ strict: false }) as { workspace: string; id: string };
  const query = useQuery({
    ...runQuery(workspace, id),
    refetchInterval: ({ state }) => (state.data && isFinal(state.data.state) ? false : ACTIVE_REFRESH),
  });
  if (query.error && !query.data) {
    return (
      <div className={classes.page}>
        <Failure error={query.error} retry={() => void query.refetch()} />
      </div>
    );
  }
  if (!query.data) {
    return (
      <div className={classes.page}>
        <Loading rows={9} height={34} />
      </div>
    );
  }
  return <Details key={id} run={query.data} />;
}

function Details({ run }: { run: RunDetails }) {
  const [search, setSearch] = useRunSearch();
  const tabs: [string, string, ReactNode][] = [
    ["overview", "Overview", <Overview run={run} />],
    ["logs", "Logs", <Logs run={run} />],
    ["metrics", "Metrics", <Metrics run={run} />],
    ["resources", "Resources", <Resources run={run} />],
    ["files", "Files", <Files run={run} />],
    ["code", "Code & environment", <Code run={run} />],
    ["children", "Children", <Children run={run} />],
    ["attempts", "Attempts", <Attempts run={run} />],
    ["events", "Events", <Events run={run} />],
  ];
  const tab = tabs.some(([name]) => name === search.tab) ? search.tab! : "overview";
  return (
    <div className={classes.page}>
      <RunHead run={run} />
      <Tabs
        value={tab}
        onChange={(name) => setSearch({ tab: name === "overview" ? undefined : (name ?? undefined), file: undefined }, "")}
        className={classes.tabs}
      >
        <Tabs.List className={classes.list} aria-label="Parts of the run">
          {tabs.map(([name, label]) => (
            <Tabs.Tab key={name} value={name}>
              {label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {tabs.map(([name, , content]) => (
          <Tabs.Panel key={name} value={name} pt="md">
            <Suspense fallback={<Loading rows={8} height={30} />}>{content}</Suspense>
          </Tabs.Panel>
        ))}
      </Tabs>
    </div>
  );
}
