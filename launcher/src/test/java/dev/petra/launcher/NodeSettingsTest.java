// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** As Cassandra reads the same file. */
final class NodeSettingsTest {
    @TempDir private Path dir;

    private NodeSettings of(String... lines) throws IOException {
        NodeDirectory directory = new NodeDirectory(dir);
        Files.createDirectories(directory.conf());
        Files.writeString(directory.yaml(), String.join("\n", lines));
        return NodeSettings.of(
                directory,
                Yaml.read(directory.yaml()),
                JvmOptions.of(directory, "-Dcassandra.jmx.local.port=7199"));
    }

    @Test
    void withoutAnAddressOfCqlItIsThatOfTheNode() throws IOException {
        assertThat(of("listen_address: 127.0.0.9", "rpc_address:").rpcAddress())
                .isEqualTo("127.0.0.9");
    }

    @Test
    void withoutAnyAddressItIsThatOfTheMachinesName() throws IOException {
        String own = InetAddress.getLocalHost().getHostAddress();

        NodeSettings settings = of("cluster_name: x");

        assertThat(settings.listenAddress()).isEqualTo(own);
        assertThat(settings.rpcAddress()).isEqualTo(own);
    }

    @Test
    void aNetworkInterfaceHasAnAddress() throws IOException {
        String loopback =
                NetworkInterface.getByInetAddress(InetAddress.getLoopbackAddress()).getName();

        NodeSettings settings =
                of("rpc_interface: " + loopback, "listen_interface: " + loopback, "rpc_address:");

        assertThat(settings.rpcAddress()).isEqualTo("127.0.0.1");
        assertThat(settings.listenAddress()).isEqualTo("127.0.0.1");
    }

    @Test
    void anUnknownNetworkInterfaceIsAnErrorThatNamesFileAndSetting() {
        assertThatThrownBy(() -> of("listen_address: 127.0.0.1", "rpc_interface: none9"))
                .isInstanceOf(NodeException.class)
                .hasMessageContaining("cassandra.yaml has rpc_interface: none9");
    }

    @Test
    void clientsMustUseTlsIfItIsEnabledAndNotOptional() throws IOException {
        String encryption = "client_encryption_options: ";
        assertThat(of(encryption + "{enabled: true}").clientTls()).isTrue();
        assertThat(of(encryption + "{enabled: yes, optional: false}").clientTls()).isTrue();
        assertThat(of(encryption + "{enabled: true, optional: true}").clientTls()).isFalse();
        assertThat(of(encryption + "{enabled: false}").clientTls()).isFalse();
        assertThat(of("cluster_name: x").clientTls()).isFalse();
        assertThat(of("native_transport_port_ssl: 9142", encryption + "{enabled: true}"))
                .matches(settings -> !settings.clientTls());
    }
}
