import { useEffect, useMemo, useRef, useSyncExternalStore } from "react";

import { onRunsChanged } from "@/api/live";
import { type RunFilters, runsPage } from "@/api/queries";
import { type FetchPage, type ListState, RunList } from "./run-list";

type Shown = { metrics: string[]; arguments: boolean };

/** The list of runs with these filters, kept up to date; other columns change it in place. */
export function useRunList(workspace: string, filters: RunFilters, shown: Shown): [RunList, ListState] {
  const key = JSON.stringify([workspace, filters]);
  const fetchPage = useMemo<FetchPage>(
    () => (cursor, limit, signal) =>
      runsPage(
        workspace,
        { ...filters, ...(shown.metrics.length ? { metrics: shown.metrics } : {}), ...(shown.arguments ? { arguments: true } : {}) },
        limit,
        cursor,
        signal,
      ),
    [key, shown.metrics.join("\n"), shown.arguments], // eslint-disable-line react-hooks/exhaustive-deps
  );
  const list = useMemo(() => new RunList(fetchPage), [key]); // eslint-disable-line react-hooks/exhaustive-deps
  const used = useRef(fetchPage);
  const state = useSyncExternalStore(list.subscribe, list.getState);
  useEffect(() => {
    list.open();
    const leave = onRunsChanged((ids) => list.changed(ids));
    return () => {
      leave();
      list.close();
    };
  }, [list]);
  useEffect(() => {
    if (used.current !== fetchPage) list.refetchBy(fetchPage);
    used.current = fetchPage;
  }, [list, fetchPage]);
  return [list, state];
}
