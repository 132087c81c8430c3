import { useParams } from "@tanstack/react-router";

/** The workspace of the address, and the path of its pages. */
export function useWorkspace(): { workspace: string; home: string } {
  const { workspace } = useParams({ strict: false }) as { workspace: string };
  return { workspace, home: `/workspaces/${encodeURIComponent(workspace)}` };
}
