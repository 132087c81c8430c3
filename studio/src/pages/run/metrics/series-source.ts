/** The server as the source of series. */
import { request } from "@/api/client";
import { follow } from "@/api/events";
import type { ApiPoint } from "@/components/chart/series";

import { runPath } from "../queries";
import type { MetricLine, SeriesSource } from "./series-store";

type Of = { workspace: string; id: string };

export function seriesSource(of: Of): SeriesSource {
  return {
    async series(names, maxPoints, signal) {
      const query = new URLSearchParams([...names.map((name) => ["name", name]), ["max_points", String(maxPoints)]] as string[][]);
      return (await (await request(runPath(of, `/series?${query}`), { signal })).json()).series;
    },
    follow: (seen, onMetric, signal) =>
      follow({
        path: () => runPath(of, `/stream?${new URLSearchParams([["metrics", "true"], ...seen().map((each) => ["seen", each])])}`),
        onEvent: ({ event, data }) => event === "metric" && onMetric(data as MetricLine),
        signal,
      }),
  };
}

/** The points of one series between two indexes, thinned. */
export async function pointsBetween(of: Of, name: string, [first, last]: [number, number], maxPoints: number, signal: AbortSignal): Promise<ApiPoint[]> {
  const query = new URLSearchParams({ first: String(first), last: String(last), max_points: String(maxPoints) });
  const path = runPath(of, `/metrics/${name.split("/").map(encodeURIComponent).join("/")}?${query}`);
  return (await (await request(path, { signal })).json()).points;
}
