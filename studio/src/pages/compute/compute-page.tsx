/** Compute: the targets by group, with their state, nodes, queue and cost. Tab and search stand in the address. */
import { Anchor, Button, Tabs, TextInput } from "@mantine/core";
import { IconPlus, IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";

import { kinds, type Target, targets } from "@/api/queries";
import { useMay } from "@/api/session";
import { Page, Section } from "@/components/page";
import { Empty, Failure, Loading } from "@/components/states";
import { healthOf } from "@/lib/health";
import { type Search, textOf } from "@/lib/search";
import { useWorkspace } from "@/lib/workspace";
import { CostTab } from "./cost-tab";
import { groupOf, groupsOf, titleOfGroup, titleOfKind } from "./groups";
import type { Kind } from "./queries";
import { TargetTable } from "./target-table";

const ALL = "all";
const COST = "cost";

export function ComputePage() {
  const { workspace, home } = useWorkspace();
  const navigate = useNavigate();
  const may = useMay();
  const search = useSearch({ strict: false }) as Search;
  const found = useQuery(targets(workspace));
  const known = useQuery(kinds(workspace));
  const group = textOf(search.group) || ALL;
  const words = textOf(search.search);
  const go = (changes: Search) => void navigate({ to: ".", search: { ...search, ...changes } as never, replace: true });
  const groups = known.data ? groupsOf(known.data.kinds) : [];
  const count = (name: string) => found.data?.targets.filter((target) => groupOf(target, known.data?.kinds ?? []) === name).length;

  return (
    <Page
      title="Compute"
      description="Where runs can run: this computer, clusters that grow with their queue, and machines and services of your own."
      actions={
        <>
          <Button variant="default" component={Link} to={`${home}/quotas`}>
            Usage and quotas
          </Button>
          {may("targets.write") && (
            <Button component={Link} to={`${home}/new-compute`} leftSection={<IconPlus size={15} />}>
              New
            </Button>
          )}
        </>
      }
    >
      <Tabs value={group} onChange={(value) => go({ group: value === ALL ? undefined : (value ?? undefined) })}>
        <Tabs.List mb="md">
          <Tabs.Tab value={ALL}>All</Tabs.Tab>
          {groups.map((name) => (
            <Tabs.Tab key={name} value={name}>
              {titleOfGroup(name)} {count(name) ? `(${count(name)})` : ""}
            </Tabs.Tab>
          ))}
          {may("runs.read") && <Tabs.Tab value={COST}>Cost</Tabs.Tab>}
        </Tabs.List>
        {[ALL, ...groups].map((name) => (
          <Tabs.Panel key={name} value={name}>
            <TextInput
              aria-label="Search targets"
              placeholder="Search by name, kind, place, state or owner"
              leftSection={<IconSearch size={15} />}
              value={words}
              onChange={(event) => go({ search: event.currentTarget.value || undefined })}
              maw={380}
              mb="sm"
            />
            {found.error || known.error ? (
              <Failure error={found.error ?? known.error} retry={() => void (found.refetch(), known.refetch())} />
            ) : !found.data || !known.data ? (
              <Loading rows={5} height={44} />
            ) : (
              <Targets targets={found.data.targets} kinds={known.data.kinds} group={name} words={words} mayAdd={may("targets.write")} home={home} />
            )}
          </Tabs.Panel>
        ))}
        <Tabs.Panel value={COST}>
          <CostTab />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

type TargetsProps = { targets: Target[]; kinds: Kind[]; group: string; words: string; mayAdd: boolean; home: string };

function Targets({ targets: all, kinds: known, group, words, mayAdd, home }: TargetsProps) {
  const inGroup = group === ALL ? all : all.filter((target) => groupOf(target, known) === group);
  const shown = inGroup.filter((target) => matches(target, known, words));
  if (!inGroup.length) return <NoTargets group={group} kinds={known} mayAdd={mayAdd} home={home} />;
  if (!shown.length) return <Empty title="Nothing matches">No target has “{words}” in its name, kind, place, state or owner.</Empty>;
  return (
    <Section>
      <TargetTable targets={shown} kinds={known} />
    </Section>
  );
}

function matches(target: Target, known: Kind[], words: string): boolean {
  const text = [target.name, target.kind, titleOfKind(target.kind, known), target.location, target.attached_by, healthOf(target).label];
  return words.toLowerCase().split(/\s+/).every((word) => text.join(" ").toLowerCase().includes(word));
}

function NoTargets({ group, kinds: known, mayAdd, home }: Omit<TargetsProps, "targets" | "words">) {
  const offered = known.filter((kind) => kind.group === group && (kind.is_attachable || kind.is_managed));
  return (
    <Empty title={`${titleOfGroup(group)}: none yet`}>
      {offered.map((kind) => (
        <p key={kind.kind}>
          {kind.description.split("\n\n")[0]}{" "}
          {mayAdd && (
            <Anchor component={Link} to={`${home}/new-compute`} search={{ kind: kind.kind } as never} size="sm" underline="always">
              {kind.is_attachable ? "Attach" : "Create"} one
            </Anchor>
          )}
        </p>
      ))}
    </Empty>
  );
}
