/** What pages ask the server for, by TanStack Query: one key per thing, so that changes find what they concern. */
import { QueryClient, queryOptions } from "@tanstack/react-query";

import { api, ApiError, data, type Schemas } from "./client";

export type Run = Schemas["RunView"];
export type RunDetails = Schemas["RunDetails"];
export type Target = Schemas["TargetView"];

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      refetchOnWindowFocus: true,
      retry: (failures, error) =>
        error instanceof ApiError && error.status >= 400 && error.status < 500 ? false : failures < 8,
      retryDelay: (failures) => Math.min(250 * 2 ** failures, 5_000),
    },
  },
});

const W = "/api/v1/workspaces/{workspace}" as const;

export const workspaces = () =>
  queryOptions({ queryKey: ["workspaces"], queryFn: ({ signal }) => data(api.GET("/api/v1/workspaces", { signal })) });

/** Filters of the table of runs, as they stand in the address. */
export type RunFilters = {
  experiment?: string;
  state?: string[];
  target?: string;
  submitted_by?: string[];
  tag?: string[];
  where?: string[];
  type?: string;
  parent?: string;
  search?: string;
  since?: string;
  until?: string;
  sort?: string;
  metrics?: string[];
  archived?: "no" | "only" | "all";
  arguments?: boolean;
};

/** One page of runs; `cursor` is `next` of the page before. */
export const runsPage = (workspace: string, filters: RunFilters, limit: number, cursor = "", signal?: AbortSignal) =>
  data(
    api.GET(`${W}/runs`, {
      params: { path: { workspace }, query: { ...filters, limit, ...(cursor ? { cursor } : {}) } as never },
      signal,
    }),
  );

/** The first runs that match, for short lists. */
export const someRuns = (workspace: string, filters: RunFilters, limit: number) =>
  queryOptions({
    queryKey: ["runs", workspace, filters, limit, "first"],
    queryFn: ({ signal }) => runsPage(workspace, filters, limit, "", signal),
  });

export const run = (workspace: string, id: string) =>
  queryOptions({
    queryKey: ["run", workspace, id],
    queryFn: ({ signal }) => data(api.GET(`${W}/runs/{id}`, { params: { path: { workspace, id } }, signal })),
  });

export const targets = (workspace: string) =>
  queryOptions({
    queryKey: ["targets", workspace],
    queryFn: ({ signal }) => data(api.GET(`${W}/targets`, { params: { path: { workspace } }, signal })),
  });

export const target = (workspace: string, name: string) =>
  queryOptions({
    queryKey: ["targets", workspace, name],
    queryFn: ({ signal }) => data(api.GET(`${W}/targets/{name}`, { params: { path: { workspace, name } }, signal })),
  });

export const kinds = (workspace: string) =>
  queryOptions({
    queryKey: ["kinds", workspace],
    staleTime: Infinity,
    queryFn: ({ signal }) => data(api.GET(`${W}/kinds`, { params: { path: { workspace } }, signal })),
  });

export const experiments = (workspace: string) =>
  queryOptions({
    queryKey: ["experiments", workspace],
    queryFn: ({ signal }) => data(api.GET(`${W}/experiments`, { params: { path: { workspace } }, signal })),
  });

export const members = (workspace: string) =>
  queryOptions({
    queryKey: ["members", workspace],
    queryFn: ({ signal }) => data(api.GET(`${W}/tokens`, { params: { path: { workspace } }, signal })),
  });

export const cost = (workspace: string, since?: string) =>
  queryOptions({
    queryKey: ["cost", workspace, since],
    queryFn: ({ signal }) =>
      data(api.GET(`${W}/cost`, { params: { path: { workspace }, query: { since } }, signal })),
  });

export const nodes = (workspace: string, name: string) =>
  queryOptions({
    queryKey: ["targets", workspace, name, "nodes"],
    queryFn: ({ signal }) => data(api.GET(`${W}/targets/{name}/nodes`, { params: { path: { workspace, name } }, signal })),
  });
