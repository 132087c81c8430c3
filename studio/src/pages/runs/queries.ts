/** What the pages of runs ask the server for. */
import { queryOptions } from "@tanstack/react-query";

import { api, data, request, type Schemas } from "@/api/client";

const W = "/api/v1/workspaces/{workspace}" as const;

/** What a table of runs can show and be filtered by. */
export type RunColumns = { metrics: string[]; parameters: string[]; tags: string[]; members: string[]; targets: string[] };

export const runColumns = (workspace: string, experiment = "") =>
  queryOptions({
    queryKey: ["run-columns", workspace, experiment],
    staleTime: 30_000,
    queryFn: async ({ signal }): Promise<RunColumns> => {
      const query = experiment ? `?experiment=${encodeURIComponent(experiment)}` : "";
      return (await request(`api/v1/workspaces/${encodeURIComponent(workspace)}/run-columns${query}`, { signal })).json();
    },
  });

export type RunChange = Partial<Schemas["Describe"]> & { archived?: boolean };

export const cancelRun = (workspace: string, id: string) =>
  data(api.POST(`${W}/runs/{id}/cancel`, { params: { path: { workspace, id } } }));

export const changeRun = (workspace: string, id: string, body: RunChange) =>
  data(api.PATCH(`${W}/runs/{id}`, { params: { path: { workspace, id } }, body: body as never }));

export async function deleteRun(workspace: string, id: string, hasChildren: boolean): Promise<void> {
  await request(`api/v1/workspaces/${encodeURIComponent(workspace)}/runs/${encodeURIComponent(id)}?children=${hasChildren}`, {
    method: "DELETE",
  });
}

export type Series = Schemas["SeriesView"];

/** The series of a run with their last values and extremes. */
export const summaries = (workspace: string, id: string) =>
  queryOptions({
    queryKey: ["run", workspace, id, "summaries"],
    queryFn: async ({ signal }) =>
      (await data(api.GET(`${W}/runs/{id}/metrics`, { params: { path: { workspace, id }, query: { last: true } }, signal }))).metrics,
  });

/** The points of a series, thinned by the server; of a range of its indices if one is given. */
export const seriesPoints = (workspace: string, id: string, name: string, maxPoints: number, range: readonly [number, number] | null = null) =>
  queryOptions({
    queryKey: ["run", workspace, id, "points", name, maxPoints, range],
    queryFn: async ({ signal }): Promise<{ count: number; points: (number | null)[][] }> => {
      const part = range ? `&first=${range[0]}&last=${range[1]}` : "";
      const path = `api/v1/workspaces/${encodeURIComponent(workspace)}/runs/${encodeURIComponent(id)}`;
      return (await request(`${path}/metrics/${name.split("/").map(encodeURIComponent).join("/")}?max_points=${maxPoints}${part}`, { signal })).json();
    },
  });

export const snapshotOf = (workspace: string, id: string) =>
  queryOptions({
    queryKey: ["snapshot", workspace, id],
    staleTime: Infinity,
    queryFn: ({ signal }) => data(api.GET(`${W}/runs/{id}/snapshot`, { params: { path: { workspace, id } }, signal })),
  });
