/** Questions before a target is removed, or its nodes are taken away. */
import { Checkbox, Select, Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { nodes, type Target } from "@/api/queries";
import { Confirm } from "@/components/confirm";
import { plural } from "@/lib/format";
import { useWorkspace } from "@/lib/workspace";
import { evict, removeTarget, renewTargets } from "./queries";

export function RemoveDialog({ target, onClose }: { target: Target; onClose: () => void }) {
  const { workspace, home } = useWorkspace();
  const navigate = useNavigate();
  const [isForced, setForced] = useState(false);
  const runs = target.active_runs + target.queued_runs;
  const verb = target.is_attached ? "Detach" : "Delete";
  async function remove() {
    await removeTarget(workspace, target.name, isForced);
    await navigate({ to: `${home}/compute` }); // before its page asks for it again
    await renewTargets(workspace);
  }
  return (
    <Confirm opened onClose={onClose} title={`${verb} ${target.name}?`} action={verb} run={remove} typed={runs ? target.name : undefined}>
      <Stack gap="sm">
        <span>
          {target.is_attached
            ? "It and its credentials are removed here. Files on it stay as they are."
            : "It is deleted with all that was created for it. Its runs stay in the history."}
        </span>
        {runs > 0 && (
          <Text size="sm" c="var(--studio-bad)">
            {plural(target.active_runs, "active run")} and {plural(target.queued_runs, "queued run")} would fail.
          </Text>
        )}
        <Checkbox
          label="Even if runs or other targets need it: its runs fail, and keep the logs that were collected"
          checked={isForced}
          onChange={(event) => setForced(event.currentTarget.checked)}
        />
      </Stack>
    </Confirm>
  );
}

export function EvictDialog({ target, onClose }: { target: Target; onClose: () => void }) {
  const { workspace } = useWorkspace();
  const { data } = useQuery(nodes(workspace, target.name));
  const [node, setNode] = useState<string | null>(null);
  async function take() {
    const { nodes: evicted } = await evict(workspace, target.name, node);
    await renewTargets(workspace);
    notifications.show({
      title: evicted.length ? `Evicted ${plural(evicted.length, "node")}` : "No node was evicted",
      message: evicted.join(", ") || `${target.name} has no nodes now.`,
    });
  }
  return (
    <Confirm opened onClose={onClose} title={`Simulate an eviction on ${target.name}?`} action="Evict" run={take}>
      <Stack gap="sm">
        <span>
          Nodes are taken away as happens to nodes of low priority: their runs get a notice, and are queued again. With this you can test whether
          a script continues from its checkpoints.
        </span>
        <Select
          label="Node"
          data={(data?.nodes ?? []).map(({ id }) => id)}
          value={node}
          onChange={setNode}
          placeholder="All nodes"
          clearable
          clearButtonProps={{ "aria-label": "Clear node" }}
        />
      </Stack>
    </Confirm>
  );
}
