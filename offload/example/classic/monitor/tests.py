"""The project's old tests; they know nothing of offload."""

from unittest import mock

from django.contrib.auth.models import User
from django.test import TestCase
from rest_framework.test import APIClient

from monitor.models import Channel

SEND = "monitor.transports.send_test"


class ChannelCase(TestCase):
    """A user with a channel."""

    def setUp(self):
        self.user = User.objects.create_user("ann")
        self.channel = Channel.objects.create(owner=self.user, name="ops", url="https://x.example")
        self.client.force_login(self.user)


class PageTests(ChannelCase):
    def test_it_adds_a_channel(self):
        form = {"name": "chat", "url": "https://chat.example/hook"}
        page = self.client.post("/", form, follow=True)
        self.assertContains(page, "Channel added.")
        self.assertContains(page, "chat")

    def test_it_refuses_a_bad_url(self):
        page = self.client.post("/", {"name": "chat", "url": "no"})
        self.assertContains(page, "Enter a valid URL.")

    def test_it_wants_a_login(self):
        self.client.logout()
        self.assertRedirects(self.client.get("/"), "/login?next=/")


class SendTestTests(ChannelCase):
    def send(self, error=""):
        with mock.patch(SEND, return_value=error) as sent:
            page = self.client.post(f"/channels/{self.channel.pk}/test", follow=True)
        self.channel.refresh_from_db()
        self.sent = sent
        return page

    def test_it_sends(self):
        page = self.send()
        self.assertRedirects(page, "/")
        self.assertContains(page, "Test notification sent!")
        self.sent.assert_called_once()

    def test_it_says_what_went_wrong(self):
        page = self.send("timed out")
        self.assertContains(page, "Could not send: timed out")
        self.assertEqual(self.channel.error, "timed out")

    def test_a_success_forgets_the_error(self):
        self.send("timed out")
        self.send()
        self.assertEqual(self.channel.error, "")

    def test_it_wants_a_post(self):
        response = self.client.get(f"/channels/{self.channel.pk}/test")
        self.assertEqual(response.status_code, 405)

    def test_it_is_the_owner_s(self):
        self.client.force_login(User.objects.create_user("bob"))
        with mock.patch(SEND) as sent:
            response = self.client.post(f"/channels/{self.channel.pk}/test")
        self.assertEqual(response.status_code, 404)
        sent.assert_not_called()


class ApiTests(ChannelCase):
    def post(self, error=""):
        client = APIClient()
        client.force_authenticate(self.user)
        with mock.patch(SEND, return_value=error):
            return client.post(f"/api/channels/{self.channel.pk}/test")

    def test_it_sends(self):
        response = self.post()
        self.assertEqual(response.status_code, 200)
        self.assertEqual(response.json(), {"channel": "ops", "error": ""})

    def test_it_says_what_went_wrong(self):
        response = self.post("timed out")
        self.assertEqual(response.status_code, 502)
        self.assertEqual(response.json()["error"], "timed out")

    def test_it_wants_a_login(self):
        response = APIClient().post(f"/api/channels/{self.channel.pk}/test")
        self.assertEqual(response.status_code, 403)
