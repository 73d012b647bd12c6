"""All routes."""

from django.contrib.auth.views import LoginView
from django.urls import path
from monitor import views

urlpatterns = [
    path("", views.channels, name="channels"),
    path("login", LoginView.as_view(template_name="login.html"), name="login"),
    path("channels/<int:pk>/test", views.send_test, name="send_test"),
    path("api/channels/<int:pk>/test", views.SendTest.as_view(), name="api_send_test"),
]
