/** Home: what runs, what waits and why, how targets are, what costs money, what failed. */
import { Anchor, Button, SimpleGrid, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";

import { someRuns, targets } from "@/api/queries";
import { useMay } from "@/api/session";
import { Page, Section } from "@/components/page";
import { Failure, Loading } from "@/components/states";
import { Attention } from "./attention";
import { Counts, RUNNING, WAITING } from "./counts";
import { GettingStarted } from "./getting-started";
import { summary } from "./queries";
import { RunRows } from "./run-rows";
import { IdleCost, TargetRows } from "./target-rows";


export function HomePage() {
  const { workspace } = useParams({ strict: false }) as { workspace: string };
  const may = useMay();
  const any = useQuery(someRuns(workspace, { archived: "all" }, 1));
  const counts = useQuery(summary(workspace));
  const machines = useQuery(targets(workspace));
  const home = `/workspaces/${encodeURIComponent(workspace)}`;
  if (any.error) return <Page title="Home"><Failure error={any.error} retry={() => void any.refetch()} /></Page>;
  if (any.data && !any.data.runs.length) return <GettingStarted workspace={workspace} />;
  if (any.isPending || counts.isPending || machines.isPending) return <Page title="Home"><Loading rows={12} height={34} /></Page>;
  return (
    <Page
      title="Home"
      actions={
        may("runs.submit") && (
          <Button component={Link} to={`${home}/submit`}>
            Submit a run
          </Button>
        )
      }
    >
      <Attention workspace={workspace} overdue={counts.data?.overdue ?? []} targets={machines.data?.targets ?? []} />
      {counts.data && <Counts workspace={workspace} runs={counts.data.runs} />}
      <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
        <Stack gap="md" miw={0}>
          <Section title="Running now" actions={<More to={`${home}/runs`} search={{ state: RUNNING }} />}>
            <RunRows
              workspace={workspace}
              filters={{ state: RUNNING }}
              limit={8}
              time="started"
              empty="Nothing runs at the moment."
            />
          </Section>
          <Section title="Waiting" actions={<More to={`${home}/runs`} search={{ state: WAITING }} />}>
            <RunRows
              workspace={workspace}
              filters={{ state: WAITING, sort: "created_at" }}
              limit={8}
              time="created"
              showsMessage
              empty="No run waits."
            />
          </Section>
          <Section title="Latest failures" actions={<More to={`${home}/runs`} search={{ state: ["Failed"] }} />}>
            <RunRows
              workspace={workspace}
              filters={{ state: ["Failed"] }}
              limit={6}
              time="ended"
              showsMessage
              empty="No run has failed."
            />
          </Section>
        </Stack>
        <Stack gap="md" miw={0}>
          <Section title="Targets" actions={<More to={`${home}/compute`} />}>
            <TargetRows workspace={workspace} />
          </Section>
          <IdleCost workspace={workspace} />
        </Stack>
      </SimpleGrid>
    </Page>
  );
}

function More({ to, search }: { to: string; search?: Record<string, string[]> }) {
  return (
    <Anchor component={Link} to={to} search={search as never} size="sm">
      All
    </Anchor>
  );
}
