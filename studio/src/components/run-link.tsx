import { Anchor } from "@mantine/core";
import { Link } from "@tanstack/react-router";

type Props = { workspace: string; run: { id: string; name: string; number: number } };

/** A link to a run by its name, or else by its id. */
export function RunLink({ workspace, run }: Props) {
  return (
    <Anchor component={Link} to={`/workspaces/${encodeURIComponent(workspace)}/runs/${encodeURIComponent(run.id)}`} size="sm" fw={500}>
      {run.name || run.id}
    </Anchor>
  );
}
