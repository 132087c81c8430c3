/** What the pages of compute ask the server for, beyond the shared queries. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { api, data, type Schemas } from "@/api/client";
import { queryClient } from "@/api/queries";

export type Kind = Schemas["KindView"];
export type Identity = Schemas["IdentityView"];
export type VmSize = Schemas["VmSizeView"];

const W = "/api/v1/workspaces/{workspace}" as const;
const COST_SECONDS = 30;

/** Everything about targets of the workspace is asked for anew. */
export const renewTargets = (workspace: string) => queryClient.invalidateQueries({ queryKey: ["targets", workspace] });

export const vmSizes = (workspace: string) =>
  queryOptions({
    queryKey: ["vm-sizes", workspace],
    staleTime: Infinity,
    queryFn: ({ signal }) => data(api.GET(`${W}/vm-sizes`, { params: { path: { workspace } }, signal })),
  });

export const quotas = (workspace: string) =>
  queryOptions({
    queryKey: ["targets", workspace, "", "quotas"], // their use changes with the targets
    queryFn: ({ signal }) => data(api.GET(`${W}/quotas`, { params: { path: { workspace } }, signal })),
  });

/** The cost of runs submitted `since` then, of one target or all. */
export const costs = (workspace: string, since: string, target?: string) =>
  queryOptions({
    queryKey: ["cost", workspace, since, target],
    refetchInterval: COST_SECONDS * 1000,
    queryFn: ({ signal }) =>
      data(api.GET(`${W}/cost`, { params: { path: { workspace }, query: { since, target } }, signal })),
  });

export const targetEvents = (workspace: string, name: string) =>
  infiniteQueryOptions({
    queryKey: ["targets", workspace, name, "events"],
    initialPageParam: undefined as number | undefined,
    queryFn: ({ signal, pageParam }) =>
      data(
        api.GET(`${W}/targets/{name}/events`, {
          params: { path: { workspace, name }, query: { before: pageParam, limit: 50 } },
          signal,
        }),
      ),
    getNextPageParam: (page) => page.next ?? undefined,
  });

export const workspaceCredential = (workspace: string, kind: string) =>
  queryOptions({
    queryKey: ["workspace-credential", workspace, kind],
    staleTime: Infinity,
    queryFn: ({ signal }) =>
      data(api.GET(`${W}/kinds/{kind}/workspace-credential`, { params: { path: { workspace, kind } }, signal })),
  });

export const checkDraft = (workspace: string, kind: string, config: Record<string, unknown>, name: string | null, signal: AbortSignal) =>
  data(api.POST(`${W}/kinds/{kind}/check`, { params: { path: { workspace, kind } }, body: { config, name }, signal }));

export const probe = (workspace: string, kind: string, config: Record<string, unknown>) =>
  data(api.POST(`${W}/probe`, { params: { path: { workspace } }, body: { kind, config } }));

export const probeTarget = (workspace: string, name: string) =>
  data(api.POST(`${W}/targets/{name}/probe`, { params: { path: { workspace, name } } }));

export const addTarget = (workspace: string, body: Schemas["NewTarget"]) =>
  data(api.POST(`${W}/targets`, { params: { path: { workspace } }, body }));

/** Changes what is given; null removes the limit of slots. */
export const changeTarget = (workspace: string, name: string, body: Partial<Schemas["TargetChange"]>) =>
  data(api.PATCH(`${W}/targets/{name}`, { params: { path: { workspace, name } }, body: body as Schemas["TargetChange"] }));

export const checkTarget = (workspace: string, name: string) =>
  data(api.POST(`${W}/targets/{name}/check`, { params: { path: { workspace, name } } }));

export const trustTarget = (workspace: string, name: string, pin: string, confirmed: boolean) =>
  data(api.POST(`${W}/targets/{name}/trust`, { params: { path: { workspace, name } }, body: { pin, confirmed } }));

export const removeTarget = (workspace: string, name: string, force: boolean) =>
  data(api.DELETE(`${W}/targets/{name}`, { params: { path: { workspace, name }, query: { force } } }));

export const evict = (workspace: string, name: string, node: string | null) =>
  data(api.POST(`${W}/targets/{name}/simulate-eviction`, { params: { path: { workspace, name } }, body: { node } }));

export const setQuota = (workspace: string, family: string, cores: number | null) =>
  data(api.PUT(`${W}/quotas`, { params: { path: { workspace } }, body: { family, cores } }));
