/** A target: how it is, what it runs, what happened to it, what it costs, and how it is changed. */
import { Alert, Anchor, Button, Group, Menu, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconAlertTriangle, IconDots } from "@tabler/icons-react";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";

import { kinds, type Target, target as targetQuery } from "@/api/queries";
import { useMay } from "@/api/session";
import { Equivalent } from "@/components/code";
import { Page, Section } from "@/components/page";
import { Dot } from "@/components/state-badge";
import { describe, Failure, Loading } from "@/components/states";
import { shellWord } from "@/lib/format";
import { healthOf } from "@/lib/health";
import { useWorkspace } from "@/lib/workspace";
import classes from "./compute.module.css";
import { TargetFacts, TargetInventory, TargetProblems } from "./target-facts";
import { checkTarget, type Kind, renewTargets } from "./queries";
import { EvictDialog, RemoveDialog } from "./target-dialogs";
import { TargetCost } from "./target-cost";
import { TargetEvents } from "./target-events";
import { TargetNodes } from "./target-nodes";
import { TargetRuns } from "./target-runs";
import { SettingsDialog } from "./target-settings";
import { TrustDialog } from "./trust-dialog";

type Dialog = "settings" | "remove" | "evict" | "trust" | null;

export function TargetPage() {
  const { workspace, home } = useWorkspace();
  const { name } = useParams({ strict: false }) as { name: string };
  const found = useQuery(targetQuery(workspace, name));
  const known = useQuery(kinds(workspace));
  const failure = found.error ?? known.error;
  if (failure) {
    return (
      <Page title={name} description={<Back home={home} />}>
        <Failure error={failure} retry={() => void (found.refetch(), known.refetch())} />
      </Page>
    );
  }
  if (!found.data || !known.data) return <Page title={name}><Loading rows={8} height={36} /></Page>;
  return <TargetView target={found.data} kind={known.data.kinds.find(({ kind }) => kind === found.data.kind)} />;
}

const Back = ({ home }: { home: string }) => (
  <Anchor component={Link} to={`${home}/compute`} size="sm">
    Compute
  </Anchor>
);

function TargetView({ target, kind }: { target: Target; kind?: Kind }) {
  const { workspace, home } = useWorkspace();
  const may = useMay();
  const [dialog, setDialog] = useState<Dialog>(null);
  const close = () => setDialog(null);
  const check = useMutation({
    mutationFn: () => checkTarget(workspace, target.name),
    onSettled: () => renewTargets(workspace),
    onSuccess: ({ ok, message }) => notifications.show({ color: ok ? "teal" : "red", title: ok ? "Ready" : "Not ready", message }),
    onError: (error) => {
      const { message, hint } = describe(error);
      notifications.show({ color: "red", title: message, message: hint });
    },
  });
  const isRemovable = may("targets.write") && (kind?.is_attachable || kind?.is_managed || !kind);
  const isDeleting = target.provisioning_state === "Deleting";
  const verb = target.is_attached ? "Detach" : "Delete";
  return (
    <Page
      title={target.name}
      description={
        <Group gap="sm">
          <Back home={home} />
          <Dot {...healthOf(target)} />
          <span>{[kind?.title ?? target.kind, target.location].filter(Boolean).join(" · ")}</span>
        </Group>
      }
      actions={
        <>
          {may("targets.use") && (
            <Button variant="default" loading={check.isPending} onClick={() => check.mutate()}>
              Check now
            </Button>
          )}
          {may("targets.write") && !isDeleting && (kind?.mutable_settings.length ?? 0) > 0 && (
            <Button variant="default" onClick={() => setDialog("settings")}>
              Edit settings
            </Button>
          )}
          {may("runs.submit") && (
            <Button component={Link} to={`${home}/submit`} search={{ target: target.name } as never}>
              Submit a run
            </Button>
          )}
          {isRemovable && (
            <Menu position="bottom-end">
              <Menu.Target>
                <Button variant="default" px={8} aria-label="More actions">
                  <IconDots size={16} />
                </Button>
              </Menu.Target>
              <Menu.Dropdown>
                {kind?.is_scalable && <Menu.Item onClick={() => setDialog("evict")}>Simulate an eviction</Menu.Item>}
                {target.pin && <Menu.Item onClick={() => setDialog("trust")}>Compare its identity</Menu.Item>}
                <Menu.Item c="var(--studio-bad)" onClick={() => setDialog("remove")}>
                  {verb}
                </Menu.Item>
              </Menu.Dropdown>
            </Menu>
          )}
        </>
      }
    >
      <Troubles target={target} mayTrust={may("targets.write")} trust={() => setDialog("trust")} />
      <div className={classes.columns}>
        <div>
          {kind?.has_nodes && <TargetNodes target={target} />}
          <TargetRuns name={target.name} />
          <TargetEvents name={target.name} />
        </div>
        <div>
          <TargetProblems target={target} />
          <TargetFacts target={target} kind={kind} />
          {kind?.is_scalable && may("runs.read") && <TargetCost name={target.name} />}
          <TargetInventory target={target} />
          <Section title="The same by command and in Python">
            <div className={classes.pad}>
              <Commands target={target} verb={verb.toLowerCase()} isScalable={kind?.is_scalable ?? false} />
            </div>
          </Section>
        </div>
      </div>
      {dialog === "settings" && kind && <SettingsDialog target={target} kind={kind} onClose={close} />}
      {dialog === "remove" && <RemoveDialog target={target} onClose={close} />}
      {dialog === "evict" && <EvictDialog target={target} onClose={close} />}
      {dialog === "trust" && <TrustDialog target={target} onClose={close} />}
    </Page>
  );
}

/** What keeps runs from starting there, and what to do. */
function Troubles({ target, mayTrust, trust }: { target: Target; mayTrust: boolean; trust: () => void }) {
  const state = target.provisioning_state;
  if (target.quarantine) {
    return (
      <Trouble title="In quarantine: nothing is sent there">
        <Text size="sm">{target.quarantine}</Text>
        {mayTrust && (
          <Button variant="default" mt="xs" onClick={trust}>
            Compare the new identity
          </Button>
        )}
      </Trouble>
    );
  }
  if (state === "Failed") {
    return (
      <Trouble title="Provisioning failed">
        <Text size="sm">{target.provisioning_message || "The reason is not known; the events may tell more."}</Text>
      </Trouble>
    );
  }
  if (state && state !== "Succeeded") {
    return (
      <Alert color="blue" variant="light" mb="md" title={`${state} …`} role="status">
        {target.provisioning_message || "Its progress is in the events below. You can leave this page."}
      </Alert>
    );
  }
  return null;
}

function Trouble({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Alert color="red" variant="light" mb="md" icon={<IconAlertTriangle size={18} />} title={title} role="alert">
      {children}
    </Alert>
  );
}

function Commands({ target, verb, isScalable }: { target: Target; verb: string; isScalable: boolean }) {
  const { workspace } = useWorkspace();
  const option = workspace === "default" ? "" : ` -w ${shellWord(workspace)}`;
  const commands = [
    `windlass compute show ${target.name}${option}`,
    `windlass compute check ${target.name}${option}`,
    `windlass submit -c ${target.name}${option} train.py`,
    ...(isScalable ? [`windlass compute simulate-eviction ${target.name}${option}`] : []),
    `windlass compute ${verb} ${target.name}${option}`,
  ];
  const found = workspace === "default" ? "Workspace.from_config()" : `Workspace.get(${JSON.stringify(workspace)})`;
  const code = [
    "from windlass import ComputeTarget, Workspace",
    "",
    `target = ComputeTarget(${found}, ${JSON.stringify(target.name)})`,
    "print(target.check())",
    ...(isScalable ? ["print(target.nodes())"] : []),
  ];
  return <Equivalent command={commands.join("\n")} python={code.join("\n")} />;
}
