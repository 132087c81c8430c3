import { api, data, type Schemas } from "@/api/client";

/** An experiment with the counts of its runs. */
export type Experiment = Schemas["ExperimentView"] & { runs?: number; active_runs?: number; failed_runs?: number; last_run_at?: string | null };

export const archiveExperiment = (workspace: string, name: string, archived: boolean) =>
  data(
    api.PATCH("/api/v1/workspaces/{workspace}/experiments/{name}", {
      params: { path: { workspace, name } },
      body: { archived } as never,
    }),
  );
