import { queryOptions } from "@tanstack/react-query";

import { api, data, type Schemas } from "@/api/client";

export type Environment = Schemas["EnvironmentView"];

const ENVIRONMENTS = "/api/v1/workspaces/{workspace}/environments" as const;

/** The latest version of each registered environment. */
export const environments = (workspace: string) =>
  queryOptions({
    queryKey: ["environments", workspace],
    queryFn: ({ signal }) => data(api.GET(ENVIRONMENTS, { params: { path: { workspace } }, signal })),
  });

/** The latest version of one. */
export const environment = (workspace: string, name: string) =>
  queryOptions({
    queryKey: ["environments", workspace, name],
    queryFn: ({ signal }) => data(api.GET(`${ENVIRONMENTS}/{name}`, { params: { path: { workspace, name } }, signal })),
  });

/** All versions of one, the latest first. */
export const environmentVersions = (workspace: string, name: string) =>
  queryOptions({
    queryKey: ["environments", workspace, name, "versions"],
    queryFn: ({ signal }) => data(api.GET(`${ENVIRONMENTS}/{name}/versions`, { params: { path: { workspace, name } }, signal })),
  });

export async function register(workspace: string, name: string, definition: Record<string, unknown>): Promise<Environment> {
  return data(api.POST(ENVIRONMENTS, { params: { path: { workspace } }, body: { name, definition, version: null } }));
}
