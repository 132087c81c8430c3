/** The cost of a period: over time, by target, by member. The period stands in the address. */
import { Anchor, SegmentedControl, SimpleGrid, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { Section } from "@/components/page";
import { Empty, Failure, Loading } from "@/components/states";
import { duration, money } from "@/lib/format";
import { type Search, textOf } from "@/lib/search";
import { useWorkspace } from "@/lib/workspace";
import classes from "./compute.module.css";
import { isPeriod, PERIODS, sinceOf, type Sum, sumBy } from "./cost";
import { CostChart } from "./cost-chart";
import { costs } from "./queries";

export function CostTab() {
  const { workspace, home } = useWorkspace();
  const navigate = useNavigate();
  const search = useSearch({ strict: false }) as Search;
  const asked = textOf(search.period);
  const period = isPeriod(asked) ? asked : "30d";
  const { data, error, refetch } = useQuery(costs(workspace, sinceOf(period)));
  const choose = (value: string) => void navigate({ to: ".", search: { ...search, period: value } as never, replace: true });
  return (
    <Stack gap="md">
      <SegmentedControl aria-label="Period" data={PERIODS} value={period} onChange={choose} w="fit-content" />
      {error ? (
        <Failure error={error} retry={() => void refetch()} />
      ) : !data ? (
        <Loading rows={5} height={44} />
      ) : !data.runs.length ? (
        <Empty title="No nodes were used">Runs on clusters use nodes, whose size has a price. There were none in this period.</Empty>
      ) : (
        <>
          <Section title="Over time">
            <CostChart runs={data.runs} period={period} />
          </Section>
          <SimpleGrid cols={{ base: 1, md: 2 }}>
            <Sums title="By target" sums={sumBy(data.runs, (run) => run.target)} link={(name) => <TargetLink home={home} name={name} />} />
            <Sums title="By member" sums={sumBy(data.runs, (run) => run.submitted_by)} link={(name) => name || "–"} />
          </SimpleGrid>
          <Text size="sm" c="dimmed">
            Runs are counted where they were submitted, by the time that they had nodes. Prices are approximate, in US dollars; idle nodes are not counted.
          </Text>
        </>
      )}
    </Stack>
  );
}

function TargetLink({ home, name }: { home: string; name: string }) {
  return (
    <Anchor component={Link} to={`${home}/compute/${encodeURIComponent(name)}`} size="sm">
      {name}
    </Anchor>
  );
}

function Sums({ title, sums, link }: { title: string; sums: Sum[]; link: (name: string) => ReactNode }) {
  return (
    <Section title={title}>
      <Table aria-label={`Cost ${title.toLowerCase()}`}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Name</Table.Th>
            <Table.Th className={classes.number}>Runs</Table.Th>
            <Table.Th className={classes.number}>Nodes</Table.Th>
            <Table.Th className={classes.number}>Cost</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {sums.map((sum) => (
            <Table.Tr key={sum.name}>
              <Table.Td>{link(sum.name)}</Table.Td>
              <Table.Td className={classes.number}>{sum.runs}</Table.Td>
              <Table.Td className={classes.number}>{duration(sum.seconds)}</Table.Td>
              <Table.Td className={classes.number}>{sum.cost === null ? "no price" : money(sum.cost)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Section>
  );
}
