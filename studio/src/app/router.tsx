/** The addresses of the studio. A page is loaded when it is opened. */
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from "@tanstack/react-router";

import { basePath, sessionToken } from "@/api/client";
import { queryClient, workspaces } from "@/api/queries";
import { session } from "@/api/session";
import { parseSearch, type Search, writeSearch } from "@/lib/search";
import { NotFound, NothingHere, PageError } from "./errors";
import { Shell } from "./shell";

const root = createRootRoute({ component: Outlet, notFoundComponent: NothingHere });

const signIn = createRoute({
  getParentRoute: () => root,
  path: "/signin",
  validateSearch: (search): { next?: string } => ({ next: typeof search.next === "string" ? search.next : undefined }),
  component: lazyRouteComponent(() => import("@/pages/signin/sign-in-page"), "SignInPage"),
});

const start = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: async () => {
    await signedIn("/");
    const { workspaces: known } = await queryClient.ensureQueryData(workspaces());
    const last = localStorage.getItem("windlass.workspace");
    const workspace = known.find(({ name }) => name === last)?.name ?? known[0]?.name ?? "default";
    throw redirect({ to: "/workspaces/$workspace", params: { workspace } });
  },
});

/** Goes to the sign-in page when there is no session. */
async function signedIn(next: string): Promise<void> {
  if (!sessionToken.get()) throw redirect({ to: "/signin", search: { next } });
  try {
    await queryClient.ensureQueryData(session());
  } catch (error) {
    if ((error as { status?: number }).status !== 401) throw error;
    throw redirect({ to: "/signin", search: { next } });
  }
}

const workspace = createRoute({
  getParentRoute: () => root,
  path: "/workspaces/$workspace",
  beforeLoad: async ({ location }) => signedIn(location.href),
  component: Shell,
  errorComponent: PageError,
  notFoundComponent: NotFound,
});

/** The search of pages with filters: texts and lists of texts, as they stand. */
const filters = (search: Record<string, unknown>): Search => search as Search;

const page = <const Path extends string>(path: Path, component: ReturnType<typeof lazyRouteComponent>) =>
  createRoute({ getParentRoute: () => workspace, path, component, validateSearch: filters, errorComponent: PageError });

const pages = [
  page("/", lazyRouteComponent(() => import("@/pages/home/home-page"), "HomePage")),
  page("/experiments", lazyRouteComponent(() => import("@/pages/experiments/experiments-page"), "ExperimentsPage")),
  page("/experiments/$experiment", lazyRouteComponent(() => import("@/pages/runs/runs-page"), "RunsPage")),
  page("/runs", lazyRouteComponent(() => import("@/pages/runs/runs-page"), "RunsPage")),
  page("/compare", lazyRouteComponent(() => import("@/pages/runs/compare-page"), "ComparePage")),
  page("/runs/$id", lazyRouteComponent(() => import("@/pages/run/run-page"), "RunPage")),
  page("/submit", lazyRouteComponent(() => import("@/pages/submit/submit-page"), "SubmitPage")),
  page("/compute", lazyRouteComponent(() => import("@/pages/compute/compute-page"), "ComputePage")),
  page("/new-compute", lazyRouteComponent(() => import("@/pages/compute/new-target-page"), "NewTargetPage")),
  page("/quotas", lazyRouteComponent(() => import("@/pages/compute/quotas-page"), "QuotasPage")),
  page("/compute/$name", lazyRouteComponent(() => import("@/pages/compute/target-page"), "TargetPage")),
  page("/models", lazyRouteComponent(() => import("@/pages/models/models-page"), "ModelsPage")),
  page("/models/$name", lazyRouteComponent(() => import("@/pages/models/model-page"), "ModelPage")),
  page("/environments", lazyRouteComponent(() => import("@/pages/environments/environments-page"), "EnvironmentsPage")),
  page("/environments/$name", lazyRouteComponent(() => import("@/pages/environments/environment-page"), "EnvironmentPage")),
  page("/secrets", lazyRouteComponent(() => import("@/pages/secrets/secrets-page"), "SecretsPage")),
  page("/members", lazyRouteComponent(() => import("@/pages/members/members-page"), "MembersPage")),
  page("/connections", lazyRouteComponent(() => import("@/pages/connections/connections-page"), "ConnectionsPage")),
  page("/audit", lazyRouteComponent(() => import("@/pages/audit/audit-page"), "AuditPage")),
  page("/settings", lazyRouteComponent(() => import("@/pages/settings/settings-page"), "SettingsPage")),
];

export const router = createRouter({
  routeTree: root.addChildren([start, signIn, workspace.addChildren(pages)]),
  basepath: basePath,
  parseSearch,
  stringifySearch: writeSearch,
  defaultPreload: "intent",
  defaultPreloadStaleTime: 0,
  defaultErrorComponent: PageError,
  scrollRestoration: true,
});
