import { queryOptions } from "@tanstack/react-query";

import { api, data } from "@/api/client";

export const runConfigurations = (workspace: string) =>
  queryOptions({
    queryKey: ["run-configurations", workspace],
    queryFn: ({ signal }) =>
      data(
        api.GET("/api/v1/workspaces/{workspace}/run-configurations", { params: { path: { workspace } }, signal }),
      ),
  });

export const snapshotOf = (workspace: string, id: string) =>
  queryOptions({
    queryKey: ["run", workspace, id, "snapshot"],
    staleTime: Infinity,
    queryFn: ({ signal }) =>
      data(
        api.GET("/api/v1/workspaces/{workspace}/runs/{id}/snapshot", { params: { path: { workspace, id } }, signal }),
      ),
  });
