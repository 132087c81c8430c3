import { queryOptions } from "@tanstack/react-query";

import { request } from "@/api/client";

export type Overdue = { id: string; experiment: string; name: string; state: string; since: string; message: string };
export type Summary = { runs: Record<string, number>; active_runs: number; queued_runs: number; targets: number; overdue: Overdue[] };

/** Counts of runs and what is overdue. Its key begins like those of runs, so that their changes refetch it. */
export const summary = (workspace: string) =>
  queryOptions({
    queryKey: ["runs", workspace, "summary"],
    refetchInterval: 30_000, // a run becomes overdue by time alone
    queryFn: async ({ signal }): Promise<Summary> =>
      (await request(`api/v1/workspaces/${encodeURIComponent(workspace)}/summary`, { signal })).json(),
  });
