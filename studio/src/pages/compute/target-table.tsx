/** The table of targets; on a phone, one card a target. */
import { Anchor, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";

import type { Target } from "@/api/queries";
import { useMay } from "@/api/session";
import { Dot } from "@/components/state-badge";
import { duration, money, plural } from "@/lib/format";
import { healthOf } from "@/lib/health";
import { useWorkspace } from "@/lib/workspace";
import { type Period, sinceOf } from "./cost";
import classes from "./compute.module.css";
import { titleOfKind } from "./groups";
import { NodeCounts } from "./node-counts";
import { costs, type Kind } from "./queries";

const PERIOD: Period = "30d";

export function TargetTable({ targets, kinds }: { targets: Target[]; kinds: Kind[] }) {
  const { workspace } = useWorkspace();
  const may = useMay();
  const since = useMemo(() => sinceOf(PERIOD), []);
  const { data: spent } = useQuery({ ...costs(workspace, since), enabled: may("runs.read") });
  return (
    <Table highlightOnHover className={classes.table} aria-label="Targets" stickyHeader={false}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Name</Table.Th>
          <Table.Th>State</Table.Th>
          <Table.Th>Nodes</Table.Th>
          <Table.Th className={classes.number}>Active</Table.Th>
          <Table.Th className={classes.number}>Queued</Table.Th>
          <Table.Th>Owner</Table.Th>
          <Table.Th className={classes.number}>Cost, 30 days</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {targets.map((target) => (
          <Row
            key={target.name}
            target={target}
            kinds={kinds}
            workspace={workspace}
            rows={spent?.targets.filter((each) => each.target === target.name) ?? []}
          />
        ))}
      </Table.Tbody>
    </Table>
  );
}

type RowProps = {
  target: Target;
  kinds: Kind[];
  workspace: string;
  rows: { node_seconds: number; cost: number | null }[];
};

function Row({ target, kinds, workspace, rows }: RowProps) {
  const health = healthOf(target);
  const countsNodes = kinds.find(({ kind }) => kind === target.kind)?.is_scalable ?? false;
  const seconds = rows.reduce((sum, each) => sum + each.node_seconds, 0);
  const amount = rows.reduce((sum, each) => sum + (each.cost ?? 0), 0);
  return (
    <Table.Tr>
      <Table.Td className={classes.wide}>
        <Anchor component={Link} to={`/workspaces/${encodeURIComponent(workspace)}/compute/${encodeURIComponent(target.name)}`} size="sm" fw={500}>
          {target.name}
        </Anchor>
        <Text size="xs" c="dimmed">
          {[titleOfKind(target.kind, kinds), target.location === titleOfKind(target.kind, kinds).toLowerCase() ? "" : target.location].filter(Boolean).join(" · ")}
        </Text>
      </Table.Td>
      <Table.Td className={classes.wide}>
        <Dot tone={health.tone} label={health.label} />
        {health.title && (
          <Text size="xs" className={classes.reason}>
            {health.title}
          </Text>
        )}
      </Table.Td>
      <Table.Td data-empty={!countsNodes || undefined}>
        <NodeCounts target={target} hasNodes={countsNodes} />
        <IdlePrice target={target} />
      </Table.Td>
      <Table.Td className={classes.number} data-label="Active">{target.active_runs}</Table.Td>
      <Table.Td className={classes.number} data-label="Queued">{target.queued_runs}</Table.Td>
      <Table.Td data-label="Owner" data-empty={!target.attached_by || undefined}>{target.attached_by || "–"}</Table.Td>
      <Table.Td className={classes.number} data-label="Cost, 30 days" data-empty={!seconds || undefined}>
        {seconds ? (
          <>
            {rows.some(({ cost }) => cost !== null) ? money(amount) : "no price"}
            <Text size="xs" c="dimmed">{duration(seconds)} of nodes</Text>
          </>
        ) : (
          <Text size="sm" c="dimmed">–</Text>
        )}
      </Table.Td>
    </Table.Tr>
  );
}

/** What idle nodes cost an hour: it is paid for nothing. */
export function IdlePrice({ target }: { target: Target }) {
  const idle = target.nodes?.idle ?? 0;
  if (!idle || !target.price_per_hour) return null;
  return (
    <Text size="xs" className={classes.idle}>
      {plural(idle, "idle node")}: {money(idle * target.price_per_hour)} an hour
    </Text>
  );
}
