/** A new target: first the kind, then its form. The kind stands in the address. */
import { Anchor, Badge, Group, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";

import { kinds } from "@/api/queries";
import { useMay } from "@/api/session";
import { Page } from "@/components/page";
import { Empty, Failure, Loading } from "@/components/states";
import { type Search, textOf } from "@/lib/search";
import { useWorkspace } from "@/lib/workspace";
import classes from "./compute.module.css";
import { groupsOf, summary, titleOfGroup } from "./groups";
import type { Kind } from "./queries";
import { TargetForm } from "./target-form";

export function NewTargetPage() {
  const { workspace, home } = useWorkspace();
  const may = useMay();
  const { data, error, refetch } = useQuery(kinds(workspace));
  const name = textOf((useSearch({ strict: false }) as Search).kind);
  const kind = data?.kinds.find((each) => each.kind === name);
  if (!may("targets.write")) {
    return (
      <Page title="New compute">
        <Empty title="Your role does not permit this">Targets are attached and created by owners of the workspace.</Empty>
      </Page>
    );
  }
  if (error) return <Page title="New compute"><Failure error={error} retry={() => void refetch()} /></Page>;
  if (!data) return <Page title="New compute"><Loading rows={4} height={88} /></Page>;
  if (!kind) return <KindChoice kinds={data.kinds} home={home} unknown={name} />;
  return (
    <Page
      title={`${kind.is_attachable ? "Attach" : "Create"}: ${kind.title}`}
      description={
        <>
          {summary(kind.description)}{" "}
          <Anchor component={Link} to={`${home}/new-compute`} size="sm" underline="always">
            Choose another kind
          </Anchor>
        </>
      }
    >
      <TargetForm key={kind.kind} kind={kind} />
    </Page>
  );
}

function KindChoice({ kinds: known, home, unknown }: { kinds: Kind[]; home: string; unknown: string }) {
  const offered = known.filter((kind) => kind.is_attachable || kind.is_managed);
  const builtIn = known.filter((kind) => !kind.is_attachable && !kind.is_managed);
  return (
    <Page title="New compute" description="Choose what to create, or to attach if it exists already.">
      {unknown && <Text c="var(--studio-bad)" mb="md">This server has no kind {unknown}.</Text>}
      <div className={classes.cards}>
        {groupsOf(offered).flatMap((group) =>
          offered
            .filter((kind) => kind.group === group)
            .map((kind) => (
              <Link key={kind.kind} to={`${home}/new-compute`} search={{ kind: kind.kind } as never} className={classes.card}>
                <Group justify="space-between" gap="xs">
                  <Title order={2} size="h3">{kind.title}</Title>
                  <Badge variant="default" size="sm" tt="none" fw={500}>
                    {kind.is_attachable ? "attached" : "created"}
                  </Badge>
                </Group>
                <Text size="sm" c="dimmed">{summary(kind.description)}</Text>
                <Text size="xs" c="dimmed">
                  {titleOfGroup(group)} · kind <code>{kind.kind}</code>
                </Text>
              </Link>
            )),
        )}
      </div>
      <Text size="sm" c="dimmed" mt="lg">
        Always there, without being created:{" "}
        {builtIn.map((kind, index) => (
          <span key={kind.kind}>
            {index > 0 && ", "}
            {kind.title.charAt(0).toLowerCase() + kind.title.slice(1)} (<code>{kind.kind}</code>)
          </span>
        ))}
      </Text>
    </Page>
  );
}
