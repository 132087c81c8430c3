/** What the pages of a run ask for. All keys begin with the run, so that a change of it renews them. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { api, basePath, data, request, type Schemas, signedLink } from "@/api/client";

export type FileView = Schemas["FileView"];
export type Series = Schemas["SeriesView"];

const RUN = "/api/v1/workspaces/{workspace}/runs/{id}" as const;

type Of = { workspace: string; id: string };

/** The address of something below a run. */
export const runPath = ({ workspace, id }: Of, rest = ""): string =>
  `api/v1/workspaces/${encodeURIComponent(workspace)}/runs/${encodeURIComponent(id)}${rest}`;

const encoded = (path: string) => path.split("/").map(encodeURIComponent).join("/");
export const filePath = (of: Of, path: string): string => runPath(of, `/files/${encoded(path)}`);
export const snapshotPath = (of: Of, path: string): string => runPath(of, `/snapshot/${encoded(path)}`);

const key = ({ workspace, id }: Of, ...rest: unknown[]) => ["run", workspace, id, ...rest];
const at = (of: Of) => ({ path: { workspace: of.workspace, id: of.id } });

export const runEvents = (of: Of) =>
  queryOptions({
    queryKey: key(of, "events"),
    queryFn: async ({ signal }) => {
      const events: Schemas["EventView"][] = [];
      for (;;) {
        const after = events.at(-1)?.seq ?? 0;
        const page = await data(api.GET(`${RUN}/events`, { params: { ...at(of), query: { after } }, signal }));
        events.push(...page.events);
        if (page.events.length < 1000) return events;
      }
    },
  });

export const runFiles = (of: Of) =>
  queryOptions({
    queryKey: key(of, "files"),
    queryFn: ({ signal }) => data(api.GET(`${RUN}/files`, { params: at(of), signal })),
  });

export const runSnapshot = (of: Of, digest: string | null) =>
  queryOptions({
    queryKey: ["snapshot", of.workspace, digest],
    enabled: digest !== null,
    staleTime: Infinity,
    queryFn: ({ signal }) => data(api.GET(`${RUN}/snapshot`, { params: at(of), signal })),
  });

export const runUsage = (of: Of, isActive: boolean) =>
  queryOptions({
    queryKey: key(of, "usage"),
    refetchInterval: isActive ? 5_000 : false,
    queryFn: ({ signal }) => data(api.GET(`${RUN}/usage`, { params: at(of), signal })),
  });

/** The last values and extremes of all metrics. */
export const metricSummaries = (of: Of, isActive: boolean) =>
  queryOptions({
    queryKey: key(of, "metrics", "last"),
    refetchInterval: isActive ? 2_000 : false,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => data(api.GET(`${RUN}/metrics`, { params: { ...at(of), query: { last: true } }, signal })),
  });

/** All that was logged to a metric that is no scalar: rows, tables, images. */
export const metricValues = (of: Of, name: string, count: number) =>
  queryOptions({
    queryKey: [...key(of, "values"), name, count],
    placeholderData: keepPreviousData,
    queryFn: async ({ signal }) => {
      const found = await data(api.GET(`${RUN}/metrics`, { params: { ...at(of), query: { name: [name] } }, signal }));
      return found.metrics[name]?.values ?? [];
    },
  });

export const children = (of: Of) =>
  queryOptions({
    queryKey: ["runs", of.workspace, "children", of.id],
    queryFn: async ({ signal }) => {
      const runs: Schemas["RunView"][] = [];
      let cursor: string | null = null;
      do {
        const query = { parent: of.id, sort: "created_at", limit: 500, archived: "all", ...(cursor ? { cursor } : {}) };
        const page: Schemas["RunPage"] = await data(
          api.GET("/api/v1/workspaces/{workspace}/runs", { params: { path: { workspace: of.workspace }, query: query as never }, signal }),
        );
        runs.push(...page.runs);
        cursor = page.next;
      } while (cursor && runs.length < 5000);
      return { runs, hasMore: cursor !== null };
    },
  });

const json = (method: string, body: unknown) => ({
  method,
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body),
});

export const changeRun = (of: Of, change: Record<string, unknown>) => request(runPath(of), json("PATCH", change));
export const cancelRun = (of: Of) => request(runPath(of, "/cancel"), { method: "POST" });
export const deleteRun = (of: Of, children: boolean) => request(runPath(of, `?children=${children}`), { method: "DELETE" });

export const registerModel = async (of: Of, name: string, path: string, description: string): Promise<Schemas["ModelView"]> =>
  (await request(`api/v1/workspaces/${encodeURIComponent(of.workspace)}/models`, json("POST", { name, run: of.id, path, description }))).json();

/** Lets the browser download something below a run. */
export async function download(path: string): Promise<void> {
  const link = document.createElement("a");
  link.href = new URL(await signedLink(path), new URL(basePath, location.origin)).href;
  link.rel = "noopener";
  link.download = "";
  link.click();
}
