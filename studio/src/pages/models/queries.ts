import { queryOptions } from "@tanstack/react-query";

import { api, data, type Schemas } from "@/api/client";

export type Model = Schemas["ModelView"];

const MODELS = "/api/v1/workspaces/{workspace}/models" as const;

/** The latest version of each model; with `name`, all versions of one. */
export const models = (workspace: string, name?: string) =>
  queryOptions({
    queryKey: ["models", workspace, name ?? ""],
    queryFn: ({ signal }) =>
      data(
        api.GET(MODELS, { params: { path: { workspace }, query: name ? { name } : { latest: true } }, signal }),
      ),
  });
