/** The table of what differs between runs. */
import { Switch, Table, Text } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";

import { Mark } from "@/components/chart/chart";
import { Section } from "@/components/page";
import classes from "./compare-page.module.css";
import type { Compared } from "./compare-page";
import { differs, environmentFacts, type Fact, fileFacts, metricFacts, parameterFacts, resourceFacts } from "./differences";
import { snapshotOf } from "./queries";

type Props = { workspace: string; runs: Compared[]; isWhole: boolean; onWhole: (isWhole: boolean) => void };

export function DifferencesSection({ workspace, runs, isWhole, onWhole }: Props) {
  const snapshots = useQueries({ queries: runs.map(({ id, details }) => ({ ...snapshotOf(workspace, id), enabled: details.snapshot !== null })) });
  const details = runs.map((each) => each.details);
  const groups: [string, Fact[]][] = [
    ["Parameters", parameterFacts(details)],
    ["Metrics", metricFacts(runs.map(({ series }) => series))],
    ["Resources", resourceFacts(details)],
    ["Environment", environmentFacts(details)],
    ["Source files", fileFacts(snapshots.map(({ data }) => data?.files))],
  ];
  const shown = groups.map(([title, facts]) => [title, isWhole || runs.length < 2 ? facts : facts.filter(differs)] as const).filter(([, facts]) => facts.length);
  return (
    <Section
      title="Differences"
      actions={<Switch size="xs" label="Also what is equal" checked={isWhole} onChange={(event) => onWhole(event.currentTarget.checked)} />}
    >
      {shown.length ? (
        <div tabIndex={0} role="region" aria-label="Differences of the runs">
          <Table className={classes.table} fz="sm" verticalSpacing={5}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th scope="col" className={classes.fact}>
                  <span className="hidden-text">Property</span>
                </Table.Th>
                {runs.map(({ id, name, color, dash }) => (
                  <Table.Th key={id} scope="col">
                    <span className={classes.column}>
                      <Mark color={color} isDashed={dash !== undefined} />
                      {name}
                    </span>
                  </Table.Th>
                ))}
              </Table.Tr>
            </Table.Thead>
            {shown.map(([title, facts]) => (
              <Table.Tbody key={title}>
                <Table.Tr>
                  <Table.Th scope="rowgroup" colSpan={runs.length + 1} className={classes.group}>
                    {title}
                  </Table.Th>
                </Table.Tr>
                {facts.map((fact) => (
                  <Table.Tr key={fact.name} data-differs={differs(fact) || undefined}>
                    <Table.Th scope="row" className={classes.fact}>
                      {fact.name}
                    </Table.Th>
                    {fact.values.map((value, at) => (
                      <Table.Td key={runs[at]!.id} className={classes.value}>
                        {value ?? <span className={classes.none}>–</span>}
                      </Table.Td>
                    ))}
                  </Table.Tr>
                ))}
              </Table.Tbody>
            ))}
          </Table>
        </div>
      ) : (
        <Text c="dimmed" size="sm" className={classes.pad}>
          These runs do not differ in their parameters, metrics, resources, environment or source files.
        </Text>
      )}
    </Section>
  );
}
