/** The nodes of a target: state, resources with their limits, and the runs on them. */
import { Anchor, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { nodes, type Target } from "@/api/queries";
import { Section } from "@/components/page";
import { Dot } from "@/components/state-badge";
import { Failure, Loading } from "@/components/states";
import { Ago } from "@/components/time";
import { bytes, plural } from "@/lib/format";
import { useWorkspace } from "@/lib/workspace";
import classes from "./compute.module.css";
import { NodeCounts, toneOfNode, wordOfNode } from "./node-counts";
import { shown } from "./target-facts";
import { IdlePrice } from "./target-table";

export function TargetNodes({ target }: { target: Target }) {
  const { workspace, home } = useWorkspace();
  const isCreating = target.provisioning_state === "Creating"; // there is nothing yet that could answer
  const { data, error, refetch } = useQuery({ ...nodes(workspace, target.name), enabled: !isCreating });
  return (
    <Section title="Nodes">
      <div className={classes.pad}>
        <NodeCounts target={target} hasNodes counts={data && countsOf(data.nodes)} />
        <IdlePrice target={target} />
      </div>
      {isCreating ? null : error ? (
        <Failure error={error} retry={() => void refetch()} />
      ) : !data ? (
        <Loading rows={2} />
      ) : data.nodes.length === 0 ? null : (
        <Table aria-label="Nodes" className={classes.table}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Node</Table.Th>
              <Table.Th>State</Table.Th>
              <Table.Th>Resources</Table.Th>
              <Table.Th>Runs</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {data.nodes.map((node) => (
              <Table.Tr key={node.id}>
                <Table.Td>
                  <Text size="sm" ff="monospace">{node.id}</Text>
                  {node.created_at && (
                    <Text size="xs" c="dimmed">
                      created <Ago time={node.created_at} />
                    </Text>
                  )}
                </Table.Td>
                <Table.Td>
                  <Dot tone={toneOfNode(node.state)} label={wordOfNode(node.state)} />
                  {node.idle_since && (
                    <Text size="xs" c="dimmed">
                      since <Ago time={node.idle_since} />
                    </Text>
                  )}
                  {node.message && <Text size="xs" className={classes.reason}>{node.message}</Text>}
                </Table.Td>
                <Table.Td className={classes.wide}>
                  <Text size="xs" c="dimmed">{resources(node.resources)}</Text>
                </Table.Td>
                <Table.Td className={classes.wide} data-empty={!node.runs.length || undefined}>
                  {node.runs.map((id) => (
                    <div key={id}>
                      <Anchor component={Link} to={`${home}/runs/${encodeURIComponent(id)}`} size="sm">
                        {id}
                      </Anchor>
                    </div>
                  ))}
                  {!node.runs.length && <Text size="sm" c="dimmed">–</Text>}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
    </Section>
  );
}

function countsOf(found: { state: string }[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { state } of found) counts[state] = (counts[state] ?? 0) + 1;
  return counts;
}

function resources(found: Record<string, unknown>): string {
  return Object.entries(found)
    .filter(([, value]) => value !== 0)
    .map(([name, value]) =>
      name.endsWith("_mb") && typeof value === "number"
        ? `${bytes(value * 1e6)} of ${name.replace(/_mb$/, "")}`
        : name.endsWith(" limit")
          ? `${name}: ${shown(value)}`
          : typeof value === "number"
            ? plural(value, name === "gpus" ? "GPU" : name.replace(/s$/, ""))
            : `${name} ${shown(value)}`,
    )
    .join(" · ");
}
