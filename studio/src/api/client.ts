/** Requests to the server: typed by its OpenAPI document, with the session's second token, errors as exceptions. */
import createClient from "openapi-fetch";

import { quoteSpecials } from "@/lib/json";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

/** The path prefix under which the server is reached, with a slash at its end. */
export const basePath = new URL(document.baseURI).pathname;

const HEADER = "X-Windlass-Session";
const KEY = "windlass.session";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string,
    readonly details: Record<string, unknown> = {},
  ) {
    super(message);
  }
}

type ErrorBody = { error?: { code: string; message: string; hint: string; details?: Record<string, unknown> } };

async function errorOf(response: Response): Promise<ApiError> {
  const body = (await response.json().catch(() => ({}))) as ErrorBody;
  const error = body.error ?? { code: "unknown", message: `The server answered ${response.status}.`, hint: "" };
  return new ApiError(response.status, error.code, error.message, error.hint, error.details ?? {});
}

/** The second token of the session. It is kept per origin: cookies alone are shared by all ports of a host. */
export const sessionToken = {
  get: (): string => localStorage.getItem(KEY + basePath) ?? "",
  set: (token: string): void => localStorage.setItem(KEY + basePath, token),
  clear: (): void => localStorage.removeItem(KEY + basePath),
};

const listeners = new Set<() => void>();

/** Calls `listener` when a request was refused because there is no valid session. */
export function onSignedOut(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function isOpen(path: string, method = "GET"): boolean {
  return (method === "POST" && /^\/?api\/v1\/session$/.test(path)) || /^\/?api\/v1\/sign-in$/.test(path);
}

/** Fetches a path of the server, relative to the base path, with the session's token. Throws ApiError. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const token = sessionToken.get();
  if (token) headers.set(HEADER, token);
  else if (!isOpen(path, init.method)) {
    listeners.forEach((listener) => listener());
    throw new ApiError(401, "denied", "This browser is not signed in.", "");
  }
  let response: Response;
  try {
    response = await fetch(basePath + path.replace(/^\//, ""), { ...init, headers, credentials: "same-origin" });
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    throw new ApiError(0, "unreachable", "The server does not answer.", "It is tried again; check that it is running.");
  }
  if (response.ok) return response;
  if (response.status === 401) listeners.forEach((listener) => listener());
  throw await errorOf(response);
}

/** The typed client: `api.GET("/api/v1/workspaces/{workspace}/runs", {params: {…}})`; errors are thrown as ApiError. */
export const api = createClient<paths>({
  baseUrl: basePath.replace(/\/$/, ""),
  fetch: async (input: Request) => {
    const url = new URL(input.url);
    const path = (url.pathname + url.search).slice(basePath.length);
    const body = input.method === "GET" || input.method === "HEAD" ? undefined : await input.arrayBuffer();
    return readable(await request(path, { method: input.method, headers: input.headers, body, signal: input.signal }));
  },
  querySerializer: { array: { style: "form", explode: true } },
});

/** The response with JSON that every browser reads: metrics may be NaN. */
async function readable(response: Response): Promise<Response> {
  if (!response.headers.get("content-type")?.startsWith("application/json")) return response;
  return new Response(quoteSpecials(await response.text()), response);
}

/** The data of a response of `api`, which is there, since errors were thrown. */
export async function data<T>(response: Promise<{ data?: T }>): Promise<T> {
  return (await response).data as T;
}

/** Opens a file of the API in the browser's own way (download, new tab), by a link that is good for a minute. */
export async function signedLink(path: string): Promise<string> {
  const response = await request("api/v1/session/links", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ path: "/" + path.replace(/^\//, "") }),
  });
  const { url } = (await response.json()) as { url: string };
  return url;
}
