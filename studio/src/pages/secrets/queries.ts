import { queryOptions } from "@tanstack/react-query";

import { api, data } from "@/api/client";

export const secrets = (workspace: string) =>
  queryOptions({
    queryKey: ["secrets", workspace],
    queryFn: ({ signal }) =>
      data(api.GET("/api/v1/workspaces/{workspace}/secrets", { params: { path: { workspace } }, signal })),
  });
