/** The session of this browser: signing in and out, and what it permits. */
import { queryOptions, useQuery } from "@tanstack/react-query";

import { api, data, request, type Schemas, sessionToken } from "./client";

export type Session = Schemas["SessionView"];

export const session = () =>
  queryOptions({
    queryKey: ["session"],
    staleTime: 60_000,
    queryFn: async ({ signal }): Promise<Session> => (await request("api/v1/session", { signal })).json(),
  });

/** The command that opens this server's studio signed in. */
export const signInCommand = () =>
  queryOptions({ queryKey: ["sign-in"], staleTime: Infinity, queryFn: () => data(api.GET("/api/v1/sign-in")) });

export async function signIn(proof: { code: string } | { token: string }): Promise<void> {
  const response = await request("api/v1/session", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(proof),
  });
  sessionToken.set(((await response.json()) as { csrf: string }).csrf);
}

export async function signOut(): Promise<void> {
  try {
    await request("api/v1/session", { method: "DELETE" });
  } finally {
    sessionToken.clear(); // without it the cookie opens nothing, also where the server could not be asked
  }
}

/** Whether the signed-in role has a permission. Actions without it are not shown. */
export function useMay(): (permission: string) => boolean {
  const { data } = useQuery(session());
  return (permission) => data?.permissions.includes(permission) ?? false;
}
