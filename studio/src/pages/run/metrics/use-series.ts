import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";

import type { RunDetails } from "@/api/queries";
import { isFinal } from "@/lib/states";

import { metricSummaries } from "../queries";
import { MOST_SEEN, SeriesStore } from "./series-store";
import { seriesSource } from "./series-source";

/** The metrics of a run with their last values, and the store of their series, which follows the run. */
export function useRunSeries(run: RunDetails) {
  const { workspace, id } = run;
  const isActive = !isFinal(run.state);
  const client = useQueryClient();
  const summaries = useQuery(metricSummaries(run, isActive));
  const store = useMemo(
    () =>
      new SeriesStore(
        seriesSource({ workspace, id }),
        () => void client.invalidateQueries({ queryKey: metricSummaries({ workspace, id }, true).queryKey }),
      ),
    [client, workspace, id],
  );
  const isKnown = summaries.data !== undefined;
  useEffect(() => {
    const counts = Object.entries(summaries.data?.metrics ?? {}).map(([name, { count }]): [string, number] => [name, count]);
    if (isActive && isKnown && counts.length < MOST_SEEN) store.follow(Object.fromEntries(counts));
    return () => store.close();
  }, [store, isActive, isKnown]); // eslint-disable-line react-hooks/exhaustive-deps
  return { summaries, store };
}
